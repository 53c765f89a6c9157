"""The table: its keys and file names, its schema and location, and the check that the settings fit it.

Stores are connected. Every function with a store as a parameter also raises the store's errors (``ConnectorError``).
"""
