"""Finds the registry's schemas for the ids in records. Each schema is requested once. Unknown ids are retried.

A Confluent id is in front of a message key or value, or in a header. An id of AWS Glue is in front of the key or value.
Protobuf data begin with the path of the message's type in the schema. If the id is in a header, the path is also in the
header. JSON is read without a schema.
"""

import math
import threading
import time
import zlib
from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any, Generic, Protocol, TypeVar
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from app.convert.chunks import AllHeaders, Values
from app.convert.columns import CONVERSION_ERRORS, Columns, accepts, change_items, recast
from app.convert.json_columns import JsonMessages
from app.json_texts import loads
from app.model import FindSchema, Headers, Message, RegisteredSchema, SchemaId
from app.reason_texts import OtherFormat, Reason, reason_of
from app.table.type_names import Types

_KEY_HEADER, _VALUE_HEADER = "__key_schema_id", "__value_schema_id"

_BY_NUMBER, _BY_GUID, _OF_GLUE = b"\0", b"\1", b"\3"
_PLAIN, _PACKED = _OF_GLUE + b"\0", _OF_GLUE + b"\5"  # prefixes of data without compression, and of zlib data
_NUMBER_BYTES, _UUID_BYTES = 5, 16
_SIZES = {_BY_GUID: 1 + _UUID_BYTES, _OF_GLUE: 2 + _UUID_BYTES}
_MOST_UNPACKED = 16 << 20  # maximum decompressed size in bytes, because zlib can expand a byte to a thousand bytes
_REFUSED_SECONDS = 30.0  # pause before a retry, because some replicas of a registry receive new schemas later
_MOST_REMEMBERED = 10_000  # maximum number of ids or topics in memory
_MOST_TEXT, _LEAST_TEXT = 8 << 20, 16 << 10  # maximum bytes of all texts, and minimum that each schema counts
_AT_ONCE, _AT_ONCE_SECONDS = 20, 10.0  # maximum failed requests for new ids in 10 s; they may last half of this time
_LONG_SECONDS = 1.0  # a slower schema is treated as failed, because an attacker may register many slow schemas

_NOT_ASKED = Reason(f"its schema id is new, and too many requests for other ids failed within {_AT_ONCE_SECONDS:g} s")


def payload(raw: bytes, headers: Headers | None, *, is_key: bool = False) -> tuple[SchemaId, bytes]:
    """Return the schema id and the data of a message key or value. Raise ``ValueError`` without a valid id."""
    prefix, data = _split(raw, headers, _KEY_HEADER if is_key else _VALUE_HEADER)
    return _schema_id(prefix), data


def payloads(values: Values, headers: AllHeaders) -> Mapping[SchemaId, tuple[Sequence[int], Sequence[bytes]]]:
    """Return the indexes and data of the values for each schema id. ``ValueError``: a value must be read separately."""
    size = _size(values[0])
    if not any(headers) and values[0][:2] != _PACKED:  # the usual case, 5 times as fast as the general case
        prefixes = {value[:size] for value in values}
        if len(prefixes) == 1:
            return {_schema_id(*prefixes): (range(len(values)), [value[size:] for value in values])}
    by_prefix: dict[bytes, tuple[list[int], list[bytes]]] = defaultdict(lambda: ([], []))
    for place, (value, of_message) in enumerate(zip(values, headers, strict=True)):
        prefix, rest = _split(value, of_message, _VALUE_HEADER)
        places, data = by_prefix[prefix]
        places.append(place)
        data.append(rest)
    groups = {_schema_id(prefix): of_schema for prefix, of_schema in by_prefix.items()}
    if len(groups) < len(by_prefix):
        raise ValueError("two forms of one schema id")
    return groups


def _split(raw: bytes, headers: Headers | None, header: str) -> tuple[bytes, bytes]:
    """Return the bytes of the schema id, and the data. In a header, bytes after the id belong to the data."""
    for name, content in headers or ():
        if name == header:
            body = content.encode() if isinstance(content, str) else content or b""
            return body[: (size := _size(body))], body[size:] + raw
    prefix, data = raw[: (size := _size(raw))], raw[size:]
    return (_PLAIN + prefix[2:], _unpacked(data)) if prefix[:2] == _PACKED else (prefix, data)


def unpacked_size(message: Message) -> int:
    """Return the size of a message's value, plus the bytes that decompression adds to the value and message key."""
    size = len(message)
    for raw in (message.value(), message.key()):
        if raw and raw[:2] == _PACKED:
            with suppress(ValueError):  # reading the message raises this error again
                size += len(_unpacked(raw[_SIZES[_OF_GLUE] :])) - len(raw)
    return size


def _unpacked(data: bytes) -> bytes:
    unpack = zlib.decompressobj()
    try:
        unpacked = unpack.decompress(data, _MOST_UNPACKED)
    except zlib.error as error:
        raise ValueError(Reason("zlib cannot unpack it").also("", f": {error}")) from None
    if not unpack.eof:
        cause = "it becomes more than 16 MB" if len(unpacked) == _MOST_UNPACKED else "it is cut off"
        raise ValueError(Reason(f"zlib cannot unpack it: {cause}"))
    return unpacked


def _size(prefix: bytes) -> int:
    return _SIZES.get(prefix[:1], _NUMBER_BYTES)


def _schema_id(prefix: bytes) -> SchemaId:
    if len(prefix) == _size(prefix):
        if prefix[:1] == _BY_NUMBER and (number := int.from_bytes(prefix[1:], signed=True)) >= 0:
            return number
        if prefix[:1] == _BY_GUID or prefix[:2] == _PLAIN:
            return UUID(bytes=prefix[-_UUID_BYTES:])
    missing = "neither its first bytes nor a header are Confluent's, nor are the first bytes those of AWS Glue"
    raise ValueError(OtherFormat(f"it has no schema id of a registry: {missing}"))


class _Reads(Protocol):
    def __init__(self, registered: RegisteredSchema, /) -> None:
        """Raise ``ValueError`` with the reason if the schema cannot be used."""

    def read(self, data: bytes, /) -> Any: ...


_Schema = TypeVar("_Schema", bound=_Reads)


class RegisteredSchemas(ABC, Generic[_Schema]):
    """A cache of the schemas of one format, by their ids. ``find`` requests a schema from the registry."""

    _format: str
    _schema: type[_Schema]

    def __init__(self, find: FindSchema, clock: Callable[[], float] = time.monotonic) -> None:
        self._find = find
        self._clock = clock
        self._here = threading.local()  # per thread, because one table may wait while another continues
        self._by_id: dict[SchemaId, _Schema] = {}
        self._text_bytes = 0
        self._refused: dict[SchemaId, tuple[float, Reason]] = {}  # the time of the next request, and the reason
        self._not_asked: dict[SchemaId, None] = {}
        self._highest = 0  # the highest known id: a registry uses consecutive ids
        # The time and duration of failed requests, for each topic, and for likely and unlikely ids.
        self._failures: dict[tuple[str, bool], deque[tuple[float, float]]] = {}

    def ask_with(self, patiently: Callable[[Callable[[], Any]], Any]) -> None:
        """Use ``patiently`` for requests of this thread. ``patiently`` repeats a call until the registry answers."""
        self._here.patiently = patiently

    def read(self, raw: bytes, headers: Headers | None, is_key: bool = False, topic: str = "") -> Any:
        """Decode a message key or value. Raise ``ValueError`` if the schema is missing or the data don't fit."""
        schema, data = payload(raw, headers, is_key=is_key)
        return self.get(schema, topic).read(data)

    @abstractmethod
    def _columns(self, schema: SchemaId, data: Sequence[bytes]) -> Columns:
        """Read many values in the types that Arrow infers. Raise ``ValueError`` if a value must be read separately."""

    def parse(self, values: Values, headers: AllHeaders, types: Types, fixed: Container[str]) -> Columns | None:
        """Return the fields as columns; ``None`` if a value must be read separately."""
        try:
            groups = [
                (places, _in_types(self._columns(schema, data), types, fixed))
                for schema, (places, data) in payloads(values, headers).items()
            ]
            columns = groups[0][1] if len(groups) == 1 else _joined(groups)
        except (*CONVERSION_ERRORS, AttributeError):  # AttributeError: a value is not an object
            return None
        return columns | {name: pa.nulls(len(values), kind) for name, kind in types.items() if name not in columns}

    def get(self, schema: SchemaId, topic: str = "") -> _Schema:
        """Return the schema with this id. Each topic has a separate limit of requests. Batches share a limit.

        Raises:
            ValueError: The schema does not exist, or cannot be used.
        """
        if (result := self._by_id.get(schema)) is None:
            until, _ = self._refused.get(schema, (-math.inf, _NOT_ASKED))
            if until <= self._clock() and self._may_ask(schema, topic):
                self._refused.pop(schema, None)
                patiently = getattr(self._here, "patiently", lambda ask: ask())
                result = patiently(partial(self._ask, schema, topic))
        if result is None:
            raise ValueError(self._refused[schema][1] if schema in self._refused else _NOT_ASKED)
        return result

    def _ask(self, schema: SchemaId, topic: str) -> _Schema | None:
        is_likely = self._is_likely(schema)
        begun, shown, result = self._clock(), "", None  # an unknown id may be any data, so it is not shown
        try:
            registered = self._find(schema)
            begun, shown = self._clock(), f" (id {schema})"
            if registered.kind != self._format.upper():
                raise ValueError(OtherFormat(f"its schema is {registered.kind} and not {self._format}"))  # noqa: TRY301
            result = self._schema(registered)
            size = max(_LEAST_TEXT, sum(map(len, (registered.text, *registered.references))))
            if self._text_bytes + size > _MOST_TEXT:
                self._by_id.clear()
                self._text_bytes = 0
            self._by_id[schema] = result
            self._highest = max(self._highest, schema if isinstance(schema, int) else 0)
            self._text_bytes += size
        except ValueError as error:
            _make_room(self._refused)
            self._refused[schema] = self._clock() + _REFUSED_SECONDS, reason_of(error).also(shown, f" (id {schema})")
        now = self._clock()
        if result is None or now - begun > _LONG_SECONDS:
            _make_room(self._failures)
            failures = self._failures.setdefault((topic, is_likely), deque(maxlen=2 * _AT_ONCE))
            failures.append((now, now - begun))
        return result

    def _is_likely(self, schema: SchemaId) -> bool:
        """Return whether the registry probably contains this id. Missing ids of this kind are too few for the limit."""
        return isinstance(schema, int) and schema < self._highest + _AT_ONCE

    def _may_ask(self, schema: SchemaId, topic: str) -> bool:
        """Return whether the limit allows a request for this id. An id that arrives again has a higher limit."""
        now, failures = self._clock(), self._failures.get((topic, self._is_likely(schema)), ())
        recent = [seconds for at, seconds in failures if at > now - _AT_ONCE_SECONDS]
        is_second = schema in self._not_asked
        if len(recent) < _AT_ONCE * (1 + is_second) and sum(recent) < _AT_ONCE_SECONDS / 2:
            self._not_asked.pop(schema, None)
            return True
        _make_room(self._not_asked)
        self._not_asked[schema] = None
        return False


class JsonSchemaMessages(JsonMessages):
    """Parses JSON messages with a schema id in front of the JSON text or in a header. The schema is not requested."""

    def _json_of(self, values: Values, headers: AllHeaders) -> Sequence[bytes]:
        groups = payloads(values, headers).values()
        by_place = {place: each for group in groups for place, each in zip(*group, strict=True)}
        return [by_place[place] for place in range(len(values))]

    def read(self, raw: bytes, headers: Headers | None, is_key: bool = False, _: str = "") -> Any:
        """Decode a message key or value. Raise ``ValueError`` if the schema id is missing or the data are not JSON."""
        return loads(payload(raw, headers, is_key=is_key)[1])


def _joined(groups: Sequence[tuple[Sequence[int], Columns]]) -> dict[str, pa.Array]:
    """Join the columns of several schemas in the order of the values. Raise ``CONVERSION_ERRORS`` if types differ."""
    places = pa.array(chain.from_iterable(places for places, _ in groups), pa.int64())
    table = pa.concat_tables([pa.table(dict(arrays)) for _, arrays in groups], promote_options="default")
    # If no value has fields, this line raises an error, because a table without columns has no rows.
    table = table.take(pc.sort_indices(places))
    return {name: table[name].combine_chunks() for name in table.column_names}


def _in_types(arrays: Columns, types: Types, fixed: Container[str]) -> dict[str, pa.Array]:
    """Cast columns to the table's types. A column without values has the type null.

    Raise one of ``CONVERSION_ERRORS`` if a value does not fit, and must be converted separately.
    """
    return {name: _in_type(array, types.get(name), is_fixed=name in fixed) for name, array in arrays.items()}


def _in_type(array: pa.Array, kind: pa.DataType | None, *, is_fixed: bool) -> pa.Array:
    if kind == array.type:
        return recast(array, kind)  # a struct without values becomes null
    if is_fixed:
        return array
    reduced = _without_voids(array)
    if kind is None:
        return reduced
    return recast(reduced, kind) if accepts(kind, reduced.type) else array


def _without_voids(array: pa.Array) -> pa.Array:
    """Return the array with the type null for each part without values, at any depth. The first value sets the type."""
    if array.null_count == len(array):
        return pa.nulls(len(array))
    if pa.types.is_struct(array.type):
        children = [_without_voids(child) for child in array.flatten()]
        return pa.StructArray.from_arrays(children, [field.name for field in array.type], mask=array.is_null())
    return change_items(array, _without_voids) if pa.types.is_nested(array.type) else array


def _make_room(remembered: dict[Any, Any]) -> None:
    if len(remembered) >= _MOST_REMEMBERED:
        remembered.clear()
