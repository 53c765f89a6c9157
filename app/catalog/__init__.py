"""Registers the table and its files in a catalog, with the bounds of each file's columns."""
