"""Estimates the size in Python of rows that came out of messages of known size."""

from typing import Any

from app.model import deep_size

MESSAGE_OVERHEAD = 300  # of a message and its value as objects of Python, in bytes
_MEASURED_EVERY = 64  # row
ROW_OVERHEAD = 200  # the row's tuple, its timestamp and offset, its place in the list
_MEASURED_FIRST = 32
_SMOOTHING = 0.2


class RowSizer:
    """Measures some of the rows, and estimates the others by the ratio of memory to message bytes.

    Walking every row would cost as much as all else the sink does with it (5 µs of a dict with ten fields).
    """

    def __init__(self) -> None:
        self._seen = 0
        self._factor = 0.0

    def size(self, value: Any, message_bytes: int) -> int:
        """Estimated bytes of one row, which came in a message of so many bytes; ``value`` includes key and headers."""
        seen = self._seen
        self._seen = seen + 1
        if seen < _MEASURED_FIRST or seen % _MEASURED_EVERY == 0:
            measured = deep_size(value)
            factor = measured / max(1, message_bytes)
            self._factor = factor if seen == 0 else self._factor + _SMOOTHING * (factor - self._factor)
            return measured + ROW_OVERHEAD
        return int(message_bytes * self._factor) + ROW_OVERHEAD
