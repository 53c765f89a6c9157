"""Reads Avro messages whose schemas are in a registry: many at a time with Polars, or one by one with fastavro.

Polars panics on some schemas and refuses other schemas. ``columns_of`` decides whether Polars can read a schema.

Polars and fastavro return equal values. If a number exceeds the range of its logical type, only fastavro can read the
value, as ``OutOfRange``. An example is a date after the year 9999.
"""

import io
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Context, Decimal, Inexact
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
from fastavro.read import LOGICAL_READERS

from app.convert.bounds import DAY_MICROS
from app.convert.chunks import AllHeaders, Values
from app.convert.scalars import OutOfRange, moment_at
from app.model import Pairs, RegisteredSchema, SchemaId
from app.parts.avro.avro_columns import OURS, ColumnReader, NotReadError, columns_of
from app.parts.avro.avro_fit import DatumCheck, Node
from app.parts.registry.registered_schemas import RegisteredSchemas, payloads
from app.reason_texts import Reason

_EXACT = Context(prec=1_000, traps=[Inexact])
_LONGEST_DECIMAL = 415  # bytes of 1,000 digits; the time to convert grows with the square of the size
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_SIZE_OF_UUID = 16
_KEPT = ("name", "namespace", "symbols", "size", "precision", "scale")


class AvroSchema:
    """A writer's schema. ``columns`` reads many datums at a time; ``None`` if Polars cannot read this schema.

    Raises:
        ValueError: The text is not an Avro schema, or the schema cannot be used safely.
    """

    def __init__(self, registered: RegisteredSchema) -> None:
        named: dict[str, Any] = {}
        try:
            for source in (*registered.references, registered.text):
                self._parsed = fastavro.parse_schema(_cleaned(json.loads(source)), named)
            self.columns = columns_of(self._parsed, named)
            self._check = DatumCheck(self._parsed, named)
        except Exception as error:  # an invalid schema may raise any error
            raise ValueError(Reason("its schema is not an Avro schema").also("", f": {error!r}")) from error

    def read(self, datum: bytes) -> Any:
        """Decode a datum. Raise ``ValueError`` if it was not written with this schema."""
        try:
            self._check(datum)
            return fastavro.schemaless_reader(io.BytesIO(datum), self._parsed, None)
        except Exception as error:
            raise ValueError(Reason("it does not fit its Avro schema").also("", f": {error!r}")) from error


def _cleaned(node: Node) -> Node:
    """Return the node with renamed logical types, without attributes that readers ignore, such as defaults."""
    if isinstance(node, str):
        return node
    if isinstance(node, list):
        return [_cleaned(each) for each in node]
    kind = node["type"]
    if not isinstance(kind, str):
        return _cleaned(kind)
    cleaned = {name: node[name] for name in _KEPT if name in node} | {"type": kind}
    if kind in ("record", "error"):
        fields = [{"name": each["name"], "type": _cleaned(each["type"])} for each in node["fields"]]
        return cleaned | {"type": "record", "fields": fields}
    if kind in ("array", "map"):
        inner = "items" if kind == "array" else "values"
        return cleaned | {inner: _cleaned(node[inner])} | ({"logicalType": f"{OURS}pairs"} if kind == "map" else {})
    return cleaned | {"logicalType": OURS + node["logicalType"]} if _changes_the_value(node) else cleaned


def _changes_the_value(node: Mapping[str, Any]) -> bool:
    """Return whether the node has a supported logical type. In Avro, an invalid logical type has no effect."""
    precision, scale = node.get("precision"), node.get("scale", 0)
    match logical := node.get("logicalType"):
        case "uuid" if node.get("size") != _SIZE_OF_UUID:
            return False
        case "decimal" if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision:
            return False
    return f"{node['type']}-{logical}" in _READERS


def _date(days: int) -> date | OutOfRange:
    ordinal = _EPOCH_DAY + days
    return date.fromordinal(ordinal) if 1 <= ordinal <= date.max.toordinal() else OutOfRange(days)


def _time(number: int, micros: int) -> time | OutOfRange:
    if not 0 <= number * micros < DAY_MICROS:
        return OutOfRange(number)
    return (datetime.min + timedelta(microseconds=number * micros)).time()


def _decimal(raw: bytes, schema: Mapping[str, Any]) -> Decimal:
    if len(raw) > _LONGEST_DECIMAL:
        raise ValueError(f"a decimal has {len(raw):,} bytes")
    return Decimal(int.from_bytes(raw, signed=True)).scaleb(-schema.get("scale", 0), _EXACT)


_Reader = Callable[[Any, Any, Any], Any]
# Timestamps in nanoseconds stay integers, because the table's timestamps have microseconds. A text UUID stays a text.
_READERS: Mapping[str, _Reader] = {
    "map-pairs": lambda value, _, __: Pairs(value),
    "int-date": lambda value, _, __: _date(value),
    "int-time-millis": lambda value, _, __: _time(value, 1_000),
    "long-time-micros": lambda value, _, __: _time(value, 1),
    "long-timestamp-millis": lambda value, _, __: moment_at(value, 1_000),
    "long-timestamp-micros": lambda value, _, __: moment_at(value),
    "long-local-timestamp-millis": lambda value, _, __: moment_at(value, 1_000, None),
    "long-local-timestamp-micros": lambda value, _, __: moment_at(value, 1, None),
    "bytes-decimal": lambda value, schema, _: _decimal(value, schema),
    "fixed-decimal": lambda value, schema, _: _decimal(value, schema),
    "fixed-uuid": lambda value, _, __: str(UUID(bytes=value)) if len(value) == _SIZE_OF_UUID else value,
}
for _name, _reader in _READERS.items():
    _base, _, _logical = _name.partition("-")
    LOGICAL_READERS[f"{_base}-{OURS}{_logical}"] = _reader


class AvroMessages(RegisteredSchemas[AvroSchema]):
    _format = "Avro"
    _schema = AvroSchema

    def _columns(self, schema: SchemaId, data: Sequence[bytes]) -> Mapping[str, pa.Array]:
        return self._reader(schema).read(data)

    def has_field(self, values: Values, headers: AllHeaders, name: str) -> bool:
        return any(name in self._reader(schema).names for schema in payloads(values, headers))

    def _reader(self, schema: SchemaId) -> ColumnReader:
        reader = self.get(schema).columns
        if reader is None:
            raise NotReadError
        return reader
