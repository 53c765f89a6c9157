"""Registers the table and its files in a catalog, with the bounds of each file's columns.

Each function that queries a catalog raises its ``RetryableError`` and ``FatalError``. A client whose token cannot be
sent raises ``ConfigError``.
"""
