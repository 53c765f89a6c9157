"""Registers the table and its files in a catalog, with the bounds of each file's columns.

A catalog's ``RetryableError`` and ``FatalError`` come through every function that asks it. A client whose token cannot
be sent is refused with ``ConfigError``.
"""
