"""What values take in Python's memory."""

import sys
from typing import Any


def deep_size(value: Any) -> int:
    """Bytes of a decoded value with all its parts; names of fields are shared between rows and not counted."""
    size = sys.getsizeof(value)
    if isinstance(value, dict):
        return size + sum(map(deep_size, value.values()))
    if isinstance(value, list | tuple):
        return size + sum(map(deep_size, value))
    return size
