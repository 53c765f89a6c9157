"""One bucket or folder: put, list, read, write under a condition. ``base`` is the contract; each SDK has a package.

The store's errors (``ConnectorError``) come through every function that takes a store.
"""
