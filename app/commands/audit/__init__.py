"""``python main.py audit``: shows which offsets are in the table, which are there twice, which are missing."""
