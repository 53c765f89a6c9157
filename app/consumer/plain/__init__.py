"""The connector's own loop, where ``transform()`` is untouched."""
