"""``python main.py rewrite``: brings old files of the table to the table's present schema."""
