"""The table: its keys and file names, its schema and location, and the check that the settings fit it.

Stores are connected. Their errors (``ConnectorError``) come through every function that takes a store.
"""
