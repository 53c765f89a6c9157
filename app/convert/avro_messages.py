"""Reads messages in Avro whose schemas are in a registry: one by one, and many at once by schema."""

import math
import time
from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from app.convert.avro_columns import ColumnReader, NotReadError
from app.convert.avro_schema import AvroSchema, AvroSchemaError
from app.convert.columns import CONVERSION_ERRORS, accepts, recast
from app.convert.wire_format import payload, payloads
from app.model import Headers, RegisteredSchema, SchemaId

_AVRO = "AVRO"
_UNKNOWN_SECONDS = 30.0  # a registry may have replicas, which get a new schema later
_MOST_UNKNOWN = 10_000


class AvroMessages:
    """Reads Avro by the schema of its writer.

    ``find`` asks the registry: it returns ``None`` for an unknown id, and raises ``RetryableError`` without an answer.
    """

    def __init__(
        self, find: Callable[[SchemaId], RegisteredSchema | None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._find = find
        self._clock = clock
        self._patiently: Callable[[Callable[[], Any]], Any] = lambda work: work()
        self._schemas: dict[SchemaId, AvroSchema | str] = {}  # or why there is none
        self._unknown: dict[SchemaId, float] = {}  # until when the registry is not asked again

    def ask_with(self, patiently: Callable[[Callable[[], Any]], Any]) -> None:
        """Asks the registry by ``patiently`` from now on, which repeats a call until the registry answers."""
        self._patiently = patiently

    def read_key(self, raw: bytes, headers: Headers | None) -> Any:
        """Decodes a key; see ``read``."""
        return self.read(raw, headers, is_key=True)

    def read(self, raw: bytes, headers: Headers | None, is_key: bool = False) -> Any:
        """Decodes a key or value of a message; ``ValueError`` if it has no schema, or does not fit it."""
        found = payload(raw, headers, is_key=is_key)
        return self._schema(found.schema).read(found.data)

    def parse(
        self,
        values: Sequence[bytes],
        headers: Sequence[Headers | None],
        wanted: Mapping[str, pa.DataType],
        fixed: Container[str],
    ) -> Mapping[str, pa.Array] | None:
        """Returns the fields, or ``None`` if one of the values must be read by itself."""
        try:
            groups = [
                (places, _in_types(self._columns(schema, data), wanted, fixed))
                for schema, (places, data) in payloads(values, headers).items()
            ]
        except (ValueError, NotReadError):
            return None
        together = groups[0][1] if len(groups) == 1 else _joined(groups)
        if together is None:
            return None
        return together | {name: pa.nulls(len(values), kind) for name, kind in wanted.items() if name not in together}

    def has_field(self, values: Sequence[bytes], headers: Sequence[Headers | None], name: str) -> bool:
        """Whether the schema of any of the values has this field."""
        return any(name in self._reader(schema).names for schema in payloads(values, headers))

    def _columns(self, schema: SchemaId, data: Sequence[bytes]) -> Mapping[str, pa.Array]:
        return self._reader(schema).read(data)

    def _reader(self, schema: SchemaId) -> ColumnReader:
        reader = self._schema(schema).columns
        if reader is None:
            raise NotReadError
        return reader

    def _schema(self, schema: SchemaId) -> AvroSchema:
        if not self._is_known(schema):
            self._patiently(partial(self._ask, schema))
        if schema in self._unknown:
            raise ValueError(f"the schema registry has no schema with the id {schema}")
        found = self._schemas[schema]
        if isinstance(found, str):
            raise ValueError(found)  # noqa: TRY004 - it is the datum that has no usable schema
        return found

    def _is_known(self, schema: SchemaId) -> bool:
        return schema in self._schemas or self._unknown.get(schema, -math.inf) > self._clock()

    def _ask(self, schema: SchemaId) -> None:
        registered = self._find(schema)
        if registered is None:
            if len(self._unknown) >= _MOST_UNKNOWN:
                self._unknown.clear()
            self._unknown[schema] = self._clock() + _UNKNOWN_SECONDS
            return
        self._unknown.pop(schema, None)
        self._schemas[schema] = _usable(schema, registered)


def _usable(schema: SchemaId, registered: RegisteredSchema) -> AvroSchema | str:
    """Returns the schema, or why it cannot be used."""
    if registered.kind != _AVRO:
        return f"its schema, with the id {schema}, is {registered.kind} and not Avro"
    try:
        return AvroSchema.parse(registered.text, registered.references)
    except AvroSchemaError as error:
        return f"{error} (id {schema})"


def _in_types(
    arrays: Mapping[str, pa.Array], wanted: Mapping[str, pa.DataType], fixed: Container[str]
) -> dict[str, pa.Array]:
    """Casts columns to the table's types where these take all values; columns without a value get no type."""
    converted = {}
    for name, array in arrays.items():
        kind = wanted.get(name)
        if kind == array.type:
            converted[name] = recast(array, kind)  # a struct without any value is null
            continue
        if name in fixed:
            converted[name] = array
            continue
        found = _without_voids(array)
        if kind is None:
            converted[name] = found
        elif accepts(kind, found.type):
            try:
                converted[name] = recast(found, kind)
            except CONVERSION_ERRORS:
                raise NotReadError from None
        else:
            converted[name] = array
    return converted


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


def _joined(groups: Sequence[tuple[Sequence[int], Mapping[str, pa.Array]]]) -> dict[str, pa.Array] | None:
    """Joins the columns of values of several schemas in the order of the values; ``None`` if their types differ."""
    places = pa.array(chain.from_iterable(places for places, _ in groups), pa.int64())
    try:
        table = pa.concat_tables([pa.table(dict(arrays)) for _, arrays in groups], promote_options="default")
    except pa.ArrowException:
        return None
    table = table.take(pc.sort_indices(places)).combine_chunks()
    return {name: column.combine_chunks() for name, column in zip(table.column_names, table.columns, strict=True)}
