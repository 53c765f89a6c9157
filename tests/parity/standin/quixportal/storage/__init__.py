"""How the store is configured."""
