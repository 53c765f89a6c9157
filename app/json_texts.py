"""JSON of any size and any values: reads it within bounds and exactly, and writes whatever Python object there is."""

import base64
import contextlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, time
from numbers import Integral
from typing import Any, Final

import orjson

MOST_BYTES: Final = 32 << 20  # of an object or an answer, unpacked; 1,000 snapshots of an Iceberg table take 1 MB
_MOST_VALUES: Final = 1_000_000  # of JSON: one that has three bytes may take 200 in memory
_FEWEST_DIGITS = 19  # of a whole number that the library does not keep
_DIGITS_AS_ZERO = bytes.maketrans(b"123456789", b"000000000")
_LONG = b"0" * _FEWEST_DIGITS


def check_json(body: bytes, most: int = MOST_BYTES) -> bytes:
    """Returns JSON of others that is to be parsed; ``ValueError`` if that may fill the memory. ``most`` is in bytes."""
    if len(body) > most:
        raise ValueError(f"it takes more than {most >> 20} MiB")
    if sum(map(body.count, (b",", b"{", b"["))) > _MOST_VALUES:
        raise ValueError(f"it has more than {_MOST_VALUES:,} values")
    return body


def loads(text: bytes | bytearray) -> Any:
    """The value of a JSON text, with whole numbers of any size; raises ``ValueError`` if it is none.

    The framework's JSON library parses whole numbers of 2^64 and more, and those below -2^63, as floats. It decides
    whether a text is JSON. A text that may have such a number is then parsed again with Python's library.
    """
    value = orjson.loads(text)
    # Looking for a long number costs half a microsecond for 200 bytes, a regular expression four times as much.
    if len(text) < _FEWEST_DIGITS or _LONG not in text.translate(_DIGITS_AS_ZERO):
        return value
    try:
        return json.loads(text.decode())
    except RecursionError:
        raise ValueError("it is nested too deeply for a text with a number of so many digits") from None


def reader_of(texts: Iterable[bytes]) -> Callable[[bytes], Any]:
    """Returns the fast library's function if none of these texts has a number that it does not keep, else ``loads``."""
    return loads if _LONG in b" ".join(texts).translate(_DIGITS_AS_ZERO) else orjson.loads


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
