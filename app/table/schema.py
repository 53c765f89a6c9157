"""The schema of a table: columns in the order in which they were first seen, with types that only widen.

Types are canonical: boolean, int, bigint, double, decimal, string, binary, date, timestamps in microseconds (in UTC or
without a zone), lists, structs and maps of these. New columns never have the type ``int``, only existing files do.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from app.table.layout import UTC_ZONE
from app.table.type_names import MAX_DIGITS, Types, parse_type, parts, type_name

_VERSION, NEWEST_VERSION = 1, 2  # releases without time zones refuse version 2

_WIDTH = {pa.int32(): 0, pa.int64(): 1, pa.float64(): 2}
_MAX_NARROW_BITS = 32
_CANONICAL = {
    pa.types.is_boolean: pa.bool_(),
    pa.types.is_floating: pa.float64(),
    pa.types.is_date: pa.date32(),
    **dict.fromkeys((pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view), pa.string()),
    **dict.fromkeys((pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view), pa.binary()),
    pa.types.is_fixed_size_binary: pa.binary(),
}


@dataclass(frozen=True, slots=True)
class TableSchema:
    """The columns of a table and their types, in the order of first use. ``time_zone`` is the folders' time zone."""

    columns: Types = field(default_factory=dict)
    time_zone: str = field(default=UTC_ZONE, compare=False)

    def merge(self, other: "TableSchema", *, widens: bool = True) -> "TableSchema":
        """Returns the columns of both schemas, with the wider type of each. ``widens``: bigint may become double.

        If two types have no common type, this schema's type stays, because files with this type exist. A column of
        ``other`` is not added if its name differs only in case from an existing column.
        """
        return TableSchema(_merge_fields(self.columns, other.columns, widens=widens))

    def to_document(self) -> dict[str, Any]:
        """Returns the schema in the form of a JSON document."""
        columns = [{"name": name, "type": type_name(kind)} for name, kind in self.columns.items()]
        if self.time_zone == UTC_ZONE:
            return {"version": _VERSION, "columns": columns}
        return {"version": NEWEST_VERSION, "time_zone": self.time_zone, "columns": columns}

    @classmethod
    def from_document(cls, document: object) -> "TableSchema":
        """Parses the result of ``to_document``. Raises ``ValueError`` with the reason if the document is wrong."""
        if not isinstance(document, dict) or not isinstance(document.get("version"), int):
            raise ValueError("it is no JSON object with a version")  # noqa: TRY004 - one error for a bad document
        if not _VERSION <= document["version"] <= NEWEST_VERSION:
            raise ValueError(f"it has version {document['version']}")
        if not isinstance(document.get("columns"), list):
            raise ValueError("it has no list of columns")  # noqa: TRY004
        columns: dict[str, pa.DataType] = {}
        for entry in document["columns"]:
            name, kind = _column(entry)
            if name in columns:
                raise ValueError(f"it has the column {name!r} twice")
            columns[name] = kind
        return cls(columns, str(document.get("time_zone", UTC_ZONE)))

    @classmethod
    def from_arrow(cls, schema: pa.Schema) -> "TableSchema":
        """Returns the schema of an existing file, without columns that have no type (void).

        Raises ``ValueError`` if a column has a type that this connector cannot write.
        """
        kinds = ((column.name, _canonical(column.type, column.name)) for column in schema)
        return cls({name: kind for name, kind in kinds if kind is not None})

    @classmethod
    def of_others(cls, fields: Iterable[pa.Field]) -> "TableSchema":
        """Returns the schema of a different writer's table, without columns that this connector cannot write."""
        columns: dict[str, pa.DataType] = {}
        for column in fields:
            with suppress(ValueError):
                columns |= cls.from_arrow(pa.schema([column])).columns
        return cls(columns)


EMPTY = TableSchema()


def join_types(first: pa.DataType, second: pa.DataType, *, widens: bool = True) -> pa.DataType:
    """Returns the narrowest type for values of both types. Where no common type exists, ``first`` stays."""
    if first in _WIDTH and second in _WIDTH and (widens or second != pa.float64()):
        return max(first, second, key=_WIDTH.__getitem__)
    if pa.types.is_struct(first) and pa.types.is_struct(second):
        return pa.struct(list(_merge_fields(_fields(first), _fields(second), widens=widens).items()))
    if pa.types.is_nested(first) and first.id == second.id:
        item = join_types(parts(first)[-1], parts(second)[-1], widens=widens)
        return pa.map_(pa.string(), item) if pa.types.is_map(first) else pa.list_(item)
    return first


def _merge_fields(ours: Types, theirs: Types, *, widens: bool) -> dict[str, pa.DataType]:
    merged = dict(ours)
    folded = {name.lower() for name in merged}
    for name, kind in theirs.items():
        if name in merged:
            merged[name] = join_types(merged[name], kind, widens=widens)
        elif name.lower() not in folded:
            merged[name] = kind
            folded.add(name.lower())
    return merged


def _fields(kind: pa.DataType) -> dict[str, pa.DataType]:
    return {field.name: field.type for field in kind}


def _column(entry: object) -> tuple[str, pa.DataType]:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str) or not isinstance(entry.get("type"), str):
        raise ValueError(f"its column {entry!r} is no object with a name and a type")  # noqa: TRY004
    try:
        return entry["name"], parse_type(entry["type"])
    except ValueError as error:
        raise ValueError(f"its column {entry['name']!r} has an unknown type: {error}") from None


def _canonical(kind: pa.DataType, name: str) -> pa.DataType | None:
    """Returns the canonical type of a stored column; ``None`` for a column without a type."""
    if pa.types.is_null(kind):
        return None
    if pa.types.is_struct(kind):
        inner = ((field.name, _canonical(field.type, f"{name}.{field.name}")) for field in kind)
        kept = [(field_name, field_type) for field_name, field_type in inner if field_type is not None]
        if len(dict(kept)) < len(kept):
            raise ValueError(f"its column {name!r} has two fields of the same name")
        return pa.struct(kept) if kept else None
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        element = _canonical(kind.value_type, f"{name}[]")
        return None if element is None else pa.list_(element)
    if pa.types.is_map(kind) and _canonical(kind.key_type, name) == pa.string():
        value = _canonical(kind.item_type, f"{name}{{}}")
        return None if value is None else pa.map_(pa.string(), value)
    if pa.types.is_dictionary(kind):
        return _canonical(kind.value_type, name)
    return _canonical_scalar(kind, name)


def _canonical_scalar(kind: pa.DataType, name: str) -> pa.DataType:
    if pa.types.is_integer(kind):
        narrow = kind.bit_width < _MAX_NARROW_BITS or kind == pa.int32()
        return pa.int32() if narrow else pa.int64()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz else None)
    if pa.types.is_decimal(kind) and kind.precision <= MAX_DIGITS and 0 <= kind.scale <= kind.precision:
        return pa.decimal128(kind.precision, kind.scale)
    for is_of, canonical in _CANONICAL.items():
        if is_of(kind):
            return canonical
    raise ValueError(f"its column {name!r} has the type {kind}, which this connector cannot write")
