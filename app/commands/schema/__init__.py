"""``python main.py schema``: the table's columns as a statement for an engine."""
