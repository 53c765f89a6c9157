"""Writes any Python object as JSON, for values that no column can store and for rejected records."""

import base64
import contextlib
import json
import math
from collections.abc import Iterator, Mapping
from datetime import date, time
from numbers import Integral
from typing import Any


def to_json(value: Any) -> str:
    """Returns JSON of any value, in UTF-8 and without NaN. Never raises.

    Dates and times are in ISO format, bytes in Base64. NaN and the infinities are the texts ``NaN``, ``Infinity`` and
    ``-Infinity``. Integers of thousands of digits are hexadecimal text. Other values become their ``str()``, also a
    list or mapping inside itself. Keys become text.
    """
    # The library is several times as fast, but refuses unusual keys, deep nesting and circles.
    for attempt in (_by_library, lambda value: "".join(_pieces(value))):
        with contextlib.suppress(Exception):  # values may be of any class, whose methods may raise anything
            # Only strings can have lone surrogates, and there the replacement is JSON's own escape for them.
            return attempt(value).encode("utf-8", "backslashreplace").decode()
    return json.dumps(_text_of(value))


def _by_library(value: Any) -> str:
    # Python's own bare NaN is no JSON: one such value would make a whole column of texts unreadable for DuckDB.
    return json.dumps(value, default=_other, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _pieces(value: Any) -> Iterator[str]:
    """Yields the JSON in parts, without recursion: nesting may be deeper than Python calls."""
    opened: list[tuple[int, str, Iterator[tuple[str, Any]]]] = []
    around: set[int] = set()
    prefix, item = "", value
    while True:
        if isinstance(item, Mapping | list | tuple) and id(item) not in around:
            begin, end = "{}" if isinstance(item, Mapping) else "[]"
            yield prefix + begin
            opened.append((id(item), end, _entries(item)))
            around.add(id(item))
        else:
            yield prefix + _scalar(item)
        while opened:
            entry = next(opened[-1][2], None)
            if entry is not None:
                break
            identity, end, _ = opened.pop()
            around.remove(identity)
            yield end
        else:
            return
        prefix, item = entry


def _entries(container: Any) -> Iterator[tuple[str, Any]]:
    """Yields the text before each value, and the value."""
    if isinstance(container, Mapping):
        pairs = ((f"{_scalar(_key(key))}:", item) for key, item in container.items())
    else:
        pairs = (("", item) for item in container)
    for number, (prefix, item) in enumerate(pairs):
        yield ("," if number else "") + prefix, item


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    return _scalar(key).strip('"') if key is None or isinstance(key, int | float) else _other(key)


def _scalar(value: Any) -> str:
    """Returns JSON of a value without elements, or of a container as text."""
    if isinstance(value, Mapping | list | tuple):
        return json.dumps(_text_of(value), ensure_ascii=False)
    if isinstance(value, float) and not math.isfinite(value):
        return json.dumps("NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity")
    try:
        return _by_library(value)
    except ValueError:  # Python refuses to write integers of more than 4,300 digits in decimals
        return json.dumps(hex(value))


def _other(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(bytes(value)).decode()
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Integral):
        return int(value)
    return _text_of(value)


def _text_of(value: Any) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - foreign code, and the record must be kept nevertheless
        return f"<{type(value).__name__} that cannot be shown>"
