"""One bucket or folder: put, list, read, conditional write. ``base`` is the contract; each SDK has a package.

Each function that uses a store raises the store's errors (``ConnectorError``).
"""
