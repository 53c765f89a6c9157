"""Converts records to one Arrow table in the types of the lake's table, and calculates each row's partition values."""
