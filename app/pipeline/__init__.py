"""Steps 1 to 7 of a batch, on threads of their own: convert, stage, write, intend, upload, register, done."""
