"""Values that fit no column in a lossless way: kept as JSON, by the names and paths they had in the record."""

import base64
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, time
from typing import Any

RESCUED_COLUMN = "_rescued_data"
_SHOWN = 80  # characters, enough to recognise a value


@dataclass(frozen=True, slots=True)
class Rescue:
    """What was rescued of one column in a batch: how many values, and why, by the example of the first."""

    count: int
    example: str


def to_json(value: Any) -> str:
    """A value of whatever kind as JSON text that any store can hold."""
    text = json.dumps(plain(value), ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:  # halves of a character that is not whole, which only escapes can express
        return json.dumps(plain(value), separators=(",", ":"))
    return text


def plain(value: Any) -> Any:
    """A value in the kinds that JSON has: bytes as base64, moments in ISO-8601, all else as text."""
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else _not_finite(value)
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, date | time):
        return value.isoformat()
    return str(value)


def joined(first: Any, second: Any) -> Any:
    """What was rescued of one value in two steps: of a struct, fields are gathered."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        both = dict(first)
        for name, value in second.items():
            both[name] = joined(both[name], value) if name in both else value
        return both
    return second


def shown(value: object) -> str:
    """A value as a message shows it."""
    try:
        text = repr(value)
    except RecursionError:
        text = "a value of many levels"
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def _not_finite(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
