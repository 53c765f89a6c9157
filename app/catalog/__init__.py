"""Catalogs that know the table's files, and what they learn of each file."""
