"""Rows of ``transform()`` as objects of Python: their own copies, and about what they take in memory."""

from collections.abc import Mapping
from copy import deepcopy
from datetime import date, datetime, time
from decimal import Decimal
from types import NoneType
from typing import Any

from app.model import deep_size

MESSAGE_OVERHEAD = 300  # of a message and its value as objects of Python, in bytes
ROW_OVERHEAD = 200  # the row's tuple, its timestamp and offset, its place in the list

_IMMUTABLE = frozenset({NoneType, bool, int, float, str, bytes, date, datetime, time, Decimal})
_MEASURED_EVERY = 64  # row
_MEASURED_FIRST = 32
_SMOOTHING = 0.2


def own_copy(value: Any) -> Any:
    """A copy that no later change of the value reaches; the value itself if its class cannot be copied.

    Functions of ``transform()`` may keep a record, and go on changing it. Most records are flat: for those it takes a
    quarter of the time of ``deepcopy``. Raises ``RecursionError``.
    """
    kind = type(value)
    if kind in _IMMUTABLE or (kind is tuple and _IMMUTABLE.issuperset(map(type, value))):
        return value
    if kind is list:
        return [each if type(each) in _IMMUTABLE else own_copy(each) for each in value]
    if kind is memoryview:
        return bytes(value)
    try:
        if kind is not dict and not isinstance(value, Mapping):
            return deepcopy(value)
        copy = dict(value)
    except RecursionError:
        raise
    except Exception:  # noqa: BLE001 - values may be of any class, such as a lock
        return value
    if _IMMUTABLE.issuperset(map(type, copy.values())):
        return copy
    for name, each in copy.items():
        if type(each) not in _IMMUTABLE:
            copy[name] = own_copy(each)
    return copy


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
