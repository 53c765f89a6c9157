"""The schemas of a registry that records name by their ids: each is asked for once, and an unknown one now and then.

The id is in Confluent's wire format, in front of a key or value or in a header, or in that of AWS Glue, in front of
them. In Protobuf the data begin with the message's path in its file, which stands in the header too if the id does.
JSON is read without its schema.
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
from app.convert.columns import CONVERSION_ERRORS, Columns, accepts, recast
from app.convert.json_parser import JsonMessages
from app.json_texts import loads
from app.model import FindSchema, Headers, Message, RegisteredSchema, SchemaId
from app.reason_texts import OtherFormat, Reason, reason_of
from app.table.type_names import Types

_KEY_HEADER, _VALUE_HEADER = "__key_schema_id", "__value_schema_id"

_BY_NUMBER, _BY_GUID, _OF_GLUE = b"\0", b"\1", b"\3"
_PLAIN, _PACKED = _OF_GLUE + b"\0", _OF_GLUE + b"\5"  # the data are as they are, or compressed by zlib
_NUMBER_BYTES, _UUID_BYTES = 5, 16
_SIZES = {_BY_GUID: 1 + _UUID_BYTES, _OF_GLUE: 2 + _UUID_BYTES}
_MOST_UNPACKED = 16 << 20  # zlib makes a thousand bytes of one; messages above this are too big by default
_REFUSED_SECONDS = 30.0  # a registry may have replicas, which get a new schema later
_MOST_REMEMBERED = 10_000  # ids, or topics
_MOST_TEXT, _LEAST_TEXT = 8 << 20, 16 << 10  # of known schemas together, and of each: a byte may take 50 of memory
_AT_ONCE, _AT_ONCE_SECONDS = 20, 10.0  # so many new ids are asked for in vain, for half of the time at the most
_LONG_SECONDS = 1.0  # to make a schema, which count as in vain: an enemy may have more of these

_NOT_ASKED = Reason(f"its schema id is new, and too many others were asked for in vain within {_AT_ONCE_SECONDS:g} s")


def payload(raw: bytes, headers: Headers | None, *, is_key: bool = False) -> tuple[SchemaId, bytes]:
    """Returns the id of the schema of a key or value, and its data; ``ValueError`` if one cannot be had."""
    named, data = _named(raw, headers, _KEY_HEADER if is_key else _VALUE_HEADER)
    return _schema_id(named), data


def payloads(values: Values, headers: AllHeaders) -> Mapping[SchemaId, tuple[Sequence[int], Sequence[bytes]]]:
    """Groups the bytes of many values by their schema, with their places; ``ValueError`` if one must be read alone."""
    size = _size(values[0])
    if not any(headers) and values[0][:2] != _PACKED:  # the usual case, and 5 times as fast
        prefixes = {value[:size] for value in values}
        if len(prefixes) == 1:
            return {_schema_id(*prefixes): (range(len(values)), [value[size:] for value in values])}
    found: dict[bytes, tuple[list[int], list[bytes]]] = defaultdict(lambda: ([], []))
    for place, (value, its) in enumerate(zip(values, headers, strict=True)):
        named, rest = _named(value, its, _VALUE_HEADER)
        places, data = found[named]
        places.append(place)
        data.append(rest)
    groups = {_schema_id(named): of_schema for named, of_schema in found.items()}
    if len(groups) < len(found):
        raise ValueError("one schema, named in two ways")
    return groups


def _named(raw: bytes, headers: Headers | None, header: str) -> tuple[bytes, bytes]:
    """Returns the bytes of the id, and the data. What a header has behind the id belongs to the data."""
    for name, content in headers or ():
        if name == header:
            found = content.encode() if isinstance(content, str) else content or b""
            return found[: (size := _size(found))], found[size:] + raw
    named, data = raw[: (size := _size(raw))], raw[size:]
    return (_PLAIN + named[2:], _unpacked(data)) if named[:2] == _PACKED else (named, data)


def unpacked_size(message: Message) -> int:
    """Returns the size of a message's value, with what it and the key grow by once they are unpacked."""
    size = len(message)
    for raw in (message.value(), message.key()):
        if raw and raw[:2] == _PACKED:
            with suppress(ValueError):  # it is refused where it is read
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


def _size(found: bytes) -> int:
    return _SIZES.get(found[:1], _NUMBER_BYTES)


def _schema_id(named: bytes) -> SchemaId:
    if len(named) == _size(named):
        if named[:1] == _BY_NUMBER and (number := int.from_bytes(named[1:], signed=True)) >= 0:
            return number
        if named[:1] == _BY_GUID or named[:2] == _PLAIN:
            return UUID(bytes=named[-_UUID_BYTES:])
    told = "neither its first bytes nor a header are Confluent's, nor are the first bytes those of AWS Glue"
    raise ValueError(OtherFormat(f"it has no schema id of a registry: {told}"))


class _Reads(Protocol):
    def __init__(self, registered: RegisteredSchema, /) -> None:
        """Raises ``ValueError`` with the reason if what the registry has is of no use."""

    def read(self, data: bytes, /) -> Any: ...


_Schema = TypeVar("_Schema", bound=_Reads)


class RegisteredSchemas(ABC, Generic[_Schema]):
    """Knows the schemas of a format by their ids; ``find`` asks the registry."""

    _format: str
    _schema: type[_Schema]

    def __init__(self, find: FindSchema, clock: Callable[[], float] = time.monotonic) -> None:
        self._find = find
        self._clock = clock
        self._here = threading.local()  # tables take turns, also while one of them waits
        self._known: dict[SchemaId, _Schema] = {}
        self._known_text = 0
        self._refused: dict[SchemaId, tuple[float, Reason]] = {}  # until when the registry is not asked again, and why
        self._not_asked: dict[SchemaId, None] = {}
        self._highest = 0  # number of those that the registry has: it counts them
        # By topic, and whether the id is likely: when, and for how long.
        self._asked_in_vain: dict[tuple[str, bool], deque[tuple[float, float]]] = {}

    def ask_with(self, patiently: Callable[[Callable[[], Any]], Any]) -> None:
        """Lets this thread ask the registry by ``patiently``, which repeats a call until the registry answers."""
        self._here.patiently = patiently

    def read(self, raw: bytes, headers: Headers | None, is_key: bool = False, topic: str = "") -> Any:
        """Decodes a key or value of a message; ``ValueError`` if it has no schema, or does not fit it."""
        schema, data = payload(raw, headers, is_key=is_key)
        return self.get(schema, topic).read(data)

    @abstractmethod
    def _columns(self, schema: SchemaId, data: Sequence[bytes]) -> Columns:
        """Reads many values into the types that Arrow infers; raises ``ValueError`` if one must be read by itself."""

    def parse(self, values: Values, headers: AllHeaders, wanted: Types, fixed: Container[str]) -> Columns | None:
        """Returns the fields, or ``None`` if one of the values must be read by itself."""
        try:
            groups = [
                (places, _in_types(self._columns(schema, data), wanted, fixed))
                for schema, (places, data) in payloads(values, headers).items()
            ]
            found = groups[0][1] if len(groups) == 1 else _joined(groups)
        except (*CONVERSION_ERRORS, AttributeError):  # of a value that is no object
            return None
        return found | {name: pa.nulls(len(values), kind) for name, kind in wanted.items() if name not in found}

    def get(self, schema: SchemaId, topic: str = "") -> _Schema:
        """Returns the schema with this id; without a topic, the time to ask is that of all batches read at once.

        Raises:
            ValueError: there is none, or it is of no use.
        """
        if (found := self._known.get(schema)) is None:
            until, _ = self._refused.get(schema, (-math.inf, _NOT_ASKED))
            if until <= self._clock() and self._may_ask(schema, topic):
                self._refused.pop(schema, None)
                patiently = getattr(self._here, "patiently", lambda ask: ask())
                found = patiently(partial(self._ask, schema, topic))
        if found is None:
            raise ValueError(self._refused[schema][1] if schema in self._refused else _NOT_ASKED)
        return found

    def _ask(self, schema: SchemaId, topic: str) -> _Schema | None:
        is_likely = self._is_likely(schema)
        begun, told, made = self._clock(), "", None  # an id without a schema may be any bytes
        try:
            found = self._find(schema)
            begun, told = self._clock(), f" (id {schema})"
            if found.kind != self._format.upper():
                raise ValueError(OtherFormat(f"its schema is {found.kind} and not {self._format}"))  # noqa: TRY301
            made = self._schema(found)
            size = max(_LEAST_TEXT, sum(map(len, (found.text, *found.references))))
            if self._known_text + size > _MOST_TEXT:
                self._known.clear()
                self._known_text = 0
            self._known[schema] = made
            self._highest = max(self._highest, schema if isinstance(schema, int) else 0)
            self._known_text += size
        except ValueError as error:
            _make_room(self._refused)
            self._refused[schema] = self._clock() + _REFUSED_SECONDS, reason_of(error).also(told, f" (id {schema})")
        now = self._clock()
        if made is None or now - begun > _LONG_SECONDS:
            _make_room(self._asked_in_vain)
            asked = self._asked_in_vain.setdefault((topic, is_likely), deque(maxlen=2 * _AT_ONCE))
            asked.append((now, now - begun))
        return made

    def _is_likely(self, schema: SchemaId) -> bool:
        """Whether the registry may have it by what is known of its numbers: too few lack there to use up the time."""
        return isinstance(schema, int) and schema < self._highest + _AT_ONCE

    def _may_ask(self, schema: SchemaId, topic: str) -> bool:
        """Whether there is time to ask for an id that may be junk, which seldom names one twice."""
        now, asked = self._clock(), self._asked_in_vain.get((topic, self._is_likely(schema)), ())
        recent = [seconds for at, seconds in asked if at > now - _AT_ONCE_SECONDS]
        is_second = schema in self._not_asked
        if len(recent) < _AT_ONCE * (1 + is_second) and sum(recent) < _AT_ONCE_SECONDS / 2:
            self._not_asked.pop(schema, None)
            return True
        _make_room(self._not_asked)
        self._not_asked[schema] = None
        return False


class JsonSchemaMessages(JsonMessages):
    """Parses messages where the id of a schema, which nobody asks for, stands before the JSON or in a header."""

    def _json_of(self, values: Values, headers: AllHeaders) -> Sequence[bytes]:
        groups = payloads(values, headers).values()
        by_place = {place: each for group in groups for place, each in zip(*group, strict=True)}
        return [by_place[place] for place in range(len(values))]

    def read(self, raw: bytes, headers: Headers | None, is_key: bool = False, _: str = "") -> Any:
        """Decodes a single one; ``ValueError`` if it has no id, or is no JSON."""
        return loads(payload(raw, headers, is_key=is_key)[1])


def _joined(groups: Sequence[tuple[Sequence[int], Columns]]) -> dict[str, pa.Array]:
    """Joins the columns of several schemas in the order of the values; one of ``CONVERSION_ERRORS`` if types differ."""
    places = pa.array(chain.from_iterable(places for places, _ in groups), pa.int64())
    table = pa.concat_tables([pa.table(dict(arrays)) for _, arrays in groups], promote_options="default")
    # That is beyond the table if values have no field: one without columns has no rows.
    table = table.take(pc.sort_indices(places))
    return {name: table[name].combine_chunks() for name in table.column_names}


def _in_types(arrays: Columns, wanted: Types, fixed: Container[str]) -> dict[str, pa.Array]:
    """Casts columns to the table's types where these take all values; columns without a value get no type.

    Raises one of ``CONVERSION_ERRORS`` if a value must be converted by itself.
    """
    return {name: _in_type(array, wanted.get(name), is_fixed=name in fixed) for name, array in arrays.items()}


def _in_type(array: pa.Array, kind: pa.DataType | None, *, is_fixed: bool) -> pa.Array:
    if kind == array.type:
        return recast(array, kind)  # a struct without any value is null
    if is_fixed:
        return array
    found = _without_voids(array)
    if kind is None:
        return found
    return recast(found, kind) if accepts(kind, found.type) else array


def _without_voids(array: pa.Array) -> pa.Array:
    """Returns the array with the type null where it has no value, at any depth: the first value gives the type."""
    if array.null_count == len(array):
        return pa.nulls(len(array))
    if pa.types.is_struct(array.type):
        children = [_without_voids(child) for child in array.flatten()]
        return pa.StructArray.from_arrays(children, [field.name for field in array.type], mask=array.is_null())
    if pa.types.is_list(array.type):
        mask = array.is_null() if array.null_count else None
        return pa.ListArray.from_arrays(array.offsets, _without_voids(array.values), mask=mask)
    return array


def _make_room(remembered: dict[Any, Any]) -> None:
    if len(remembered) >= _MOST_REMEMBERED:
        remembered.clear()
