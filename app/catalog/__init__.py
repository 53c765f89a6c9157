"""Registers the table and its files in a catalog, with the bounds of each file's columns.

Each function that queries a catalog raises the catalog's ``RetryableError`` and ``FatalError``. If a token cannot be
sent, the client raises ``ConfigError``.
"""
