"""Puts, lists, reads and conditionally writes objects in one bucket or folder. ``base`` defines the interface.

Each SDK has a package. Each function that uses a store raises the store's errors (``ConnectorError``).
"""
