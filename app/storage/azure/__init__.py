"""Azure Blob Storage, and Azurite, which emulates it."""
