"""The table: object keys and file names, schema, location, and the check that the settings fit the table.

Stores must be connected. Every function with a parameter for a store raises the store's errors (``ConnectorError``).
"""
