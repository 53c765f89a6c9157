"""Reads JSON exactly and within limits of memory, and writes any Python object as JSON."""

import base64
import contextlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, time
from numbers import Integral
from typing import Any, Final

import orjson

MOST_BYTES: Final = 32 << 20  # bytes of an unpacked object or answer; 1,000 snapshots of an Iceberg table need 1 MB
_MOST_VALUES: Final = 1_000_000  # values in a JSON text; a value of three bytes may need 200 bytes in memory
_FEWEST_DIGITS = 19  # digits of an integer that orjson may read as a float
_DIGITS_AS_ZERO = bytes.maketrans(b"123456789", b"000000000")
_LONG = b"0" * _FEWEST_DIGITS


def check_json(body: bytes, most: int = MOST_BYTES) -> bytes:
    """Returns the given JSON of another system. Raises ``ValueError`` for too many bytes or too many values."""
    if len(body) > most:
        raise ValueError(f"it contains more than {most >> 20} MiB")
    if sum(map(body.count, (b",", b"{", b"["))) > _MOST_VALUES:
        raise ValueError(f"it contains more than {_MOST_VALUES:,} values")
    return body


def loads(text: bytes | bytearray) -> Any:
    """Returns the value of a JSON text, with integers of any size. Raises ``ValueError`` if the text is not JSON.

    orjson decides whether a text is JSON. It parses whole numbers from 2^64, and those below -2^63, as floats.
    Therefore Python's library parses a text again if the text may contain one of these numbers.
    """
    value = orjson.loads(text)
    # This search for a long number takes half a microsecond for 200 bytes, a regular expression four times as long.
    if len(text) < _FEWEST_DIGITS or _LONG not in text.translate(_DIGITS_AS_ZERO):
        return value
    try:
        return json.loads(text.decode())
    except RecursionError:
        raise ValueError(f"it contains a number of {_FEWEST_DIGITS} digits or more, and too many levels") from None


def reader_of(texts: Iterable[bytes]) -> Callable[[bytes], Any]:
    """Returns ``orjson.loads`` if orjson reads all numbers of these texts exactly, otherwise ``loads``."""
    return loads if _LONG in b" ".join(texts).translate(_DIGITS_AS_ZERO) else orjson.loads


def to_json(value: Any) -> str:
    """Returns JSON for any value, in UTF-8 and without NaN. No value raises an error.

    Dates and times are in ISO format, bytes in Base64. NaN and the infinities are the texts ``NaN``, ``Infinity`` and
    ``-Infinity``. Integers of more than 4,300 digits are hexadecimal text. Other values, and a list or mapping that
    contains itself, become their ``str()``. Keys become text.
    """
    # Python's library is several times as fast, but refuses unusual keys, deep nesting and circular references.
    for attempt in (_by_library, lambda value: "".join(_pieces(value))):
        with contextlib.suppress(Exception):  # values may be of any class, whose methods may raise anything
            # Only strings can contain lone surrogates. There the replacement is JSON's own escape for them.
            return attempt(value).encode("utf-8", "backslashreplace").decode()
    return json.dumps(_text_of(value))


def _by_library(value: Any) -> str:
    # Python's NaN is not JSON. One NaN would make a complete column of texts unreadable for DuckDB.
    return json.dumps(value, default=_other, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _pieces(value: Any) -> Iterator[str]:
    """Yields the JSON in parts, without recursion, because values may have more levels than Python's stack."""
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
    """Returns JSON of a value without elements. A container becomes text."""
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
