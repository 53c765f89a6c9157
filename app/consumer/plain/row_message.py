"""A row of ``transform()`` as JSON text in the form of a message: many are converted at once, as those of Kafka are."""

from collections.abc import Iterable
from math import isfinite
from typing import Any

import orjson

from app.json_texts import loads
from app.model import Message, Row

_PLAIN = frozenset({str, int, bool, type(None)})
_TIMESTAMPS = range(-(2**63), 2**63)
# Values that JSON has not would become others.
_AS_IT_IS = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_SUBCLASS


class RowMessage:
    """``of`` is the message that the row came of; ``is_only`` if it gave no other row."""

    __slots__ = ("_headers", "_text", "_timestamp", "is_only", "of")

    def __init__(self, text: bytes, timestamp: int, headers: Any, of: Message) -> None:
        self._text = text
        self._timestamp = timestamp
        self._headers = headers
        self.of = of
        self.is_only = True

    def __len__(self) -> int:
        return len(self._text)

    def topic(self) -> str:
        return self.of.topic()

    def partition(self) -> int:
        return self.of.partition()

    def offset(self) -> int:
        return self.of.offset()

    def timestamp(self) -> tuple[int, int]:
        return 0, self._timestamp

    def key(self) -> bytes | None:
        return self.of.key()

    def value(self) -> bytes:
        return self._text

    def headers(self) -> Any:
        return self._headers

    def set_headers(self, value: Any) -> None:
        self._headers = value

    def error(self) -> None:
        """A row has none."""

    def row(self) -> Row:
        key, message = self.of.key(), self.of if self.is_only else None
        of_key = None if key is None else key.decode()
        return Row(loads(self._text), of_key, self._timestamp, self.of.offset(), self._headers, message)


def row_of(message: Any) -> Row:
    """The row of a ``RowMessage``, as ``ReadMessage``."""
    row: Row = message.row()
    return row


def text_of(value: dict[Any, Any], timestamp: int) -> bytes | None:
    """The row as JSON; ``None`` if reading that would not give the same row."""
    if type(value) is not dict or timestamp not in _TIMESTAMPS:
        return None
    fields = value.values()
    try:
        if not (_PLAIN.issuperset(map(type, fields)) or _is_json(fields)):
            return None
        return bytes(memoryview(orjson.dumps(value, option=_AS_IT_IS)))  # its own bytes keep 4 kB, however few they are
    except (TypeError, RecursionError):  # a name that is no text, a number of more than 64 bits, too many levels
        return None


def _is_json(values: Iterable[Any]) -> bool:
    """Whether JSON has all of these values; a float without a value would become null."""
    for each in values:
        kind = type(each)
        if kind is float:
            if not isfinite(each):
                return False
        elif kind is dict or kind is list:
            if not _is_json(each.values() if kind is dict else each):
                return False
        elif kind not in _PLAIN:
            return False
    return True
