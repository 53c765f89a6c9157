"""The schemas of a registry that records name by their ids: each is asked for once, and an unknown one now and then.

The id is in Confluent's wire format, in front of a key or value or in a header. In Protobuf the data begin with the
path of the message in its file, which stands in the header too if the id does.
"""

import math
import time
from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Generic, NamedTuple, Protocol, TypeVar
from uuid import UUID

from app.model import Headers, RegisteredSchema, SchemaId
from app.reasons import Reason, reason_of

_KEY_HEADER, _VALUE_HEADER = "__key_schema_id", "__value_schema_id"

_BY_NUMBER, _BY_GUID = b"\0", b"\1"
_NUMBER_BYTES, _GUID_BYTES = 5, 17
_REFUSED_SECONDS = 30.0  # a registry may have replicas, which get a new schema later
_MOST_REMEMBERED = 10_000  # ids
_AT_ONCE, _AT_ONCE_SECONDS = 20, 10.0  # so many new ids are asked for in vain, for half of the time at the most

_NOT_ASKED = Reason(f"its schema id is new, and too many others were asked for in vain within {_AT_ONCE_SECONDS:g} s")


AllHeaders = Sequence[Headers | None]


class Payload(NamedTuple):
    """Bytes, and the id of the schema that they were written with."""

    schema: SchemaId
    data: bytes


def payload(raw: bytes, headers: Headers | None, *, is_key: bool = False) -> Payload:
    """Splits a key or value of a message with these headers; ``ValueError`` if it has no id."""
    named, data = _named(raw, headers, _KEY_HEADER if is_key else _VALUE_HEADER)
    return Payload(_schema_id(named), data)


def payloads(values: Sequence[bytes], headers: AllHeaders) -> Mapping[SchemaId, tuple[Sequence[int], Sequence[bytes]]]:
    """Groups the bytes of many values by their schema, with their places; ``ValueError`` if one has no id."""
    if not any(headers) and {value[:1] for value in values} == {_BY_NUMBER}:  # the usual case, and 5 times as fast
        prefixes = [value[:_NUMBER_BYTES] for value in values]
        if len(set(prefixes)) == 1:
            return {_schema_id(prefixes[0]): (range(len(values)), [value[_NUMBER_BYTES:] for value in values])}
    found: dict[bytes, tuple[list[int], list[bytes]]] = defaultdict(lambda: ([], []))
    for place, (value, its) in enumerate(zip(values, headers, strict=True)):
        named, rest = _named(value, its, _VALUE_HEADER)
        places, data = found[named]
        places.append(place)
        data.append(rest)
    return {_schema_id(named): of_schema for named, of_schema in found.items()}


def _named(raw: bytes, headers: Headers | None, header: str) -> tuple[bytes, bytes]:
    """Returns the bytes of the id, and the data. What a header has behind the id belongs to the data."""
    for name, content in headers or ():
        if name == header:
            found = content.encode() if isinstance(content, str) else content or b""
            return found[: (size := _size(found))], found[size:] + raw
    return raw[: (size := _size(raw))], raw[size:]


def _size(found: bytes) -> int:
    return _GUID_BYTES if found[:1] == _BY_GUID else _NUMBER_BYTES


def _schema_id(named: bytes) -> SchemaId:
    if named[:1] == _BY_NUMBER and len(named) == _NUMBER_BYTES:
        number = int.from_bytes(named[1:], signed=True)
        if number >= 0:
            return number
    if named[:1] == _BY_GUID and len(named) == _GUID_BYTES:
        return UUID(bytes=named[1:])
    raise ValueError(Reason("it has no schema id of a registry: neither its first bytes nor a header are Confluent's"))


class _Reads(Protocol):
    def read(self, data: bytes, /) -> Any: ...


_Schema = TypeVar("_Schema", bound=_Reads)

Find = Callable[[SchemaId], RegisteredSchema]
"""Asks the registry: raises ``ValueError`` with the reason for an id without a usable schema, and ``RetryableError``
without an answer."""


class RegisteredSchemas(ABC, Generic[_Schema]):
    """Knows the schemas of a format by their ids; ``find`` asks the registry."""

    _format: str

    def __init__(self, find: Find, clock: Callable[[], float] = time.monotonic) -> None:
        self._find = find
        self._clock = clock
        self._patiently: Callable[[Callable[[], Any]], Any] = lambda work: work()
        self._known: dict[SchemaId, _Schema] = {}
        self._refused: dict[SchemaId, tuple[float, Reason]] = {}  # until when the registry is not asked again, and why
        self._not_asked: dict[SchemaId, None] = {}
        self._asked_in_vain: deque[tuple[float, float]] = deque(maxlen=2 * _AT_ONCE)  # when, and for how long

    @abstractmethod
    def _parse(self, registered: RegisteredSchema) -> _Schema:
        """Makes a schema of what the registry has; raises ``ValueError`` with the reason if it is of no use."""

    def ask_with(self, patiently: Callable[[Callable[[], Any]], Any]) -> None:
        """Asks the registry by ``patiently`` from now on, which repeats a call until the registry answers."""
        self._patiently = patiently

    def read(self, raw: bytes, headers: Headers | None, is_key: bool = False) -> Any:
        """Decodes a key or value of a message; ``ValueError`` if it has no schema, or does not fit it."""
        found = payload(raw, headers, is_key=is_key)
        return self.get(found.schema).read(found.data)

    def get(self, schema: SchemaId) -> _Schema:
        """Returns the schema with this id.

        Raises:
            ValueError: there is none, or it is of no use.
        """
        if schema not in self._known:
            until, _ = self._refused.get(schema, (-math.inf, _NOT_ASKED))
            if until <= self._clock() and self._may_ask(schema):
                self._refused.pop(schema, None)
                self._patiently(partial(self._ask, schema))
        if schema not in self._known:
            raise ValueError(self._refused[schema][1] if schema in self._refused else _NOT_ASKED)
        return self._known[schema]

    def _ask(self, schema: SchemaId) -> None:
        begun = self._clock()
        try:
            found = self._find(schema)
        except ValueError as error:
            self._refuse(schema, reason_of(error).also("", f" (id {schema})"), begun)  # the id may be any bytes
            return
        try:
            if found.kind != self._format.upper():
                raise ValueError(Reason(f"its schema is {found.kind} and not {self._format}"))  # noqa: TRY301
            self._known[schema] = self._parse(found)
        except ValueError as error:
            self._refuse(schema, reason_of(error).also(f" (id {schema})"), begun)

    def _refuse(self, schema: SchemaId, reason: Reason, begun: float) -> None:
        _make_room(self._refused)
        now = self._clock()
        self._refused[schema] = now + _REFUSED_SECONDS, reason
        self._asked_in_vain.append((now, now - begun))

    def _may_ask(self, schema: SchemaId) -> bool:
        """Whether there is time to ask for an id that may be junk, which seldom names one twice."""
        now = self._clock()
        recent = [seconds for at, seconds in self._asked_in_vain if at > now - _AT_ONCE_SECONDS]
        is_second = schema in self._not_asked
        if len(recent) < _AT_ONCE * (1 + is_second) and sum(recent) < _AT_ONCE_SECONDS / 2:
            self._not_asked.pop(schema, None)
            return True
        _make_room(self._not_asked)
        self._not_asked[schema] = None
        return False


def _make_room(ids: dict[SchemaId, Any]) -> None:
    if len(ids) >= _MOST_REMEMBERED:
        ids.clear()
