"""Records → one Arrow table in the table's types, and the partition values of each row."""
