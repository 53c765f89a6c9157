"""Reads messages in Avro whose schemas are in a registry: one by one with fastavro, and many at once with Polars.

Polars panics on some schemas and refuses others. So the schema decides which way is possible, see ``columns_of``.

Both ways give equal values. A number that its logical type cannot show, such as a date after the year 9999, is read by
the first way, as ``OutOfRange``.
"""

import io
import json
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal, Inexact
from itertools import chain
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pyarrow.compute as pc
from fastavro.read import LOGICAL_READERS

from app.convert.avro_columns import ColumnReader, NotReadError, columns_of
from app.convert.avro_fit import OURS, SIZE_OF_UUID, DatumCheck, Node, logical_type
from app.convert.columns import in_types
from app.convert.registered_schemas import AllHeaders, RegisteredSchemas, payloads
from app.convert.scalars import OutOfRange
from app.model import RegisteredSchema, SchemaId
from app.reasons import Reason

_EXACT = Context(prec=1_000, traps=[Inexact])
_LONGEST_DECIMAL = 415  # bytes of 1,000 digits; the time grows with the square
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1)
_DAY_MICROS = 86_400_000_000
_KEPT = ("name", "namespace", "symbols", "size", "precision", "scale")


class AvroSchemaError(ValueError):
    """A schema that no datum can be read with."""


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """The schema of a writer; ``columns`` reads many datums at once, and is ``None`` where Polars cannot."""

    columns: ColumnReader | None
    _parsed: Any
    _check: DatumCheck

    @classmethod
    def parse(cls, text: str, references: Sequence[str] = ()) -> "AvroSchema":
        """Parses a schema from JSON; ``references`` are those that it names, each behind those that it names itself.

        Raises:
            AvroSchemaError: it is no schema of Avro, or no datum can be read safely with it.
        """
        named: dict[str, Any] = {}
        parsed = None
        try:
            for source in (*references, text):
                parsed = fastavro.parse_schema(_cleaned(json.loads(source)), named)
            return cls(columns_of(parsed, named), parsed, DatumCheck(parsed, named))
        except Exception as error:  # of many kinds, for a schema may have any form
            raise AvroSchemaError(Reason("its schema is no schema of Avro").also("", f": {error!r}")) from error

    def read(self, datum: bytes) -> Any:
        """Decodes a datum; ``ValueError`` if it was not written with this schema."""
        try:
            self._check(datum)
            return fastavro.schemaless_reader(io.BytesIO(datum), self._parsed, None)
        except Exception as error:
            raise ValueError(Reason("it does not fit its Avro schema").also("", f": {error!r}")) from error


def _cleaned(node: Node) -> Node:
    """Removes what only other readers need (defaults may be of a wrong type), and gives logical types our names."""
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
        return cleaned | {inner: _cleaned(node[inner])}
    logical = logical_type(node)
    return cleaned | {"logicalType": OURS + logical} if logical else cleaned


def _date(days: int) -> date | OutOfRange:
    ordinal = _EPOCH_DAY + days
    return date.fromordinal(ordinal) if 1 <= ordinal <= date.max.toordinal() else OutOfRange(days)


def _time(number: int, micros: int) -> time | OutOfRange:
    if not 0 <= number * micros < _DAY_MICROS:
        return OutOfRange(number)
    return (_EPOCH + timedelta(microseconds=number * micros)).time()


def _moment(number: int, micros: int, zone: Any) -> datetime | OutOfRange:
    try:
        return (_EPOCH + timedelta(microseconds=number * micros)).replace(tzinfo=zone)
    except OverflowError:
        return OutOfRange(number)


def _decimal(raw: bytes, schema: Mapping[str, Any]) -> Decimal:
    if len(raw) > _LONGEST_DECIMAL:
        raise ValueError(f"a decimal has {len(raw):,} bytes")
    return Decimal(int.from_bytes(raw, signed=True)).scaleb(-schema.get("scale", 0), _EXACT)


_Reader = Callable[[Any, Any, Any], Any]
_READERS: Mapping[str, _Reader] = {
    "int-date": lambda value, _, __: _date(value),
    "int-time-millis": lambda value, _, __: _time(value, 1_000),
    "long-time-micros": lambda value, _, __: _time(value, 1),
    "long-timestamp-millis": lambda value, _, __: _moment(value, 1_000, UTC),
    "long-timestamp-micros": lambda value, _, __: _moment(value, 1, UTC),
    "long-local-timestamp-millis": lambda value, _, __: _moment(value, 1_000, None),
    "long-local-timestamp-micros": lambda value, _, __: _moment(value, 1, None),
    "bytes-decimal": lambda value, schema, _: _decimal(value, schema),
    "fixed-decimal": lambda value, schema, _: _decimal(value, schema),
    "fixed-uuid": lambda value, _, __: str(UUID(bytes=value)) if len(value) == SIZE_OF_UUID else value,
}
for _name, _reader in _READERS.items():
    _base, _, _logical = _name.partition("-")
    LOGICAL_READERS[f"{_base}-{OURS}{_logical}"] = _reader


class AvroMessages(RegisteredSchemas[AvroSchema]):
    """Reads Avro by the schema of its writer."""

    _format = "Avro"

    def _parse(self, registered: RegisteredSchema) -> AvroSchema:
        return AvroSchema.parse(registered.text, registered.references)

    def parse(
        self, values: Sequence[bytes], headers: AllHeaders, wanted: Mapping[str, pa.DataType], fixed: Container[str]
    ) -> Mapping[str, pa.Array] | None:
        """Returns the fields, or ``None`` if one of the values must be read by itself."""
        try:
            groups = [
                (places, in_types(self._reader(schema).read(data), wanted, fixed))
                for schema, (places, data) in payloads(values, headers).items()
            ]
        except (ValueError, NotReadError):
            return None
        together = groups[0][1] if len(groups) == 1 else _joined(groups)
        if together is None:
            return None
        return together | {name: pa.nulls(len(values), kind) for name, kind in wanted.items() if name not in together}

    def has_field(self, values: Sequence[bytes], headers: AllHeaders, name: str) -> bool:
        """Whether the schema of any of the values has this field."""
        return any(name in self._reader(schema).names for schema in payloads(values, headers))

    def _reader(self, schema: SchemaId) -> ColumnReader:
        reader = self.get(schema).columns
        if reader is None:
            raise NotReadError
        return reader


def _joined(groups: Sequence[tuple[Sequence[int], Mapping[str, pa.Array]]]) -> dict[str, pa.Array] | None:
    """Joins the columns of values of several schemas in the order of the values; ``None`` if their types differ."""
    places = pa.array(chain.from_iterable(places for places, _ in groups), pa.int64())
    try:
        table = pa.concat_tables([pa.table(dict(arrays)) for _, arrays in groups], promote_options="default")
    except pa.ArrowException:
        return None
    table = table.take(pc.sort_indices(places)).combine_chunks()
    return {name: column.combine_chunks() for name, column in zip(table.column_names, table.columns, strict=True)}
