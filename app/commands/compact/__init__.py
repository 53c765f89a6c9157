"""``python main.py compact`` merges files of the table; ``python main.py erase`` deletes rows from it."""
