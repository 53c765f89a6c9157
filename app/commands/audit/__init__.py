"""``python main.py audit``: which offsets are in the table, which are there twice, which are missing."""
