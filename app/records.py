"""Rows as they came → one Arrow table.

Columns are the record's own fields in the order they are first seen, the timestamp column (the Kafka timestamp where a
record has none) and ``__key``. Types are those Arrow infers over the whole batch; whole numbers and fractions in one
column make it double.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from app.model import Row
from app.timestamps import BadValueError

KEY_COLUMN = "__key"
_MAX_DIGITS = 38  # of a decimal in Spark, and in what most readers take
# What Arrow raises for values that do not fit one type, numbers that fit none, and text that is not Unicode.
_CONVERSION_ERRORS = (pa.ArrowException, TypeError, ValueError, OverflowError)


def to_table(rows: Sequence[Row], timestamp_column: str) -> pa.Table:
    """Convert rows to a table with one row each, in the same order.

    A field that is missing or null in a row is null; a column without any value is left out, for it has no type yet.

    Raises:
        BadValueError: a value that does not fit the column's type, with the row's position.
    """
    columns = _fields([row.value for row in rows])
    columns[timestamp_column] = _timestamps(columns.get(timestamp_column), rows, timestamp_column)
    columns[KEY_COLUMN] = _keys(rows)
    table = _storable(columns)
    # A table without columns would have no rows either.
    return table if table.num_columns else pa.table({KEY_COLUMN: pa.nulls(len(rows), pa.string())})


def _fields(values: list[dict[str, Any]]) -> dict[str, pa.Array]:
    """All fields at once: Arrow infers a struct over the union of the keys, in C++."""
    try:
        records = pa.array(values)
    except _CONVERSION_ERRORS:
        raise _first_misfit(values) from None
    if not pa.types.is_struct(records.type):
        raise BadValueError(0, "field names must be text")
    columns = {field.name: records.field(field.name) for field in records.type}
    _refuse_cut_datetimes(columns, values)
    return {name: _empty_dicts_as_null(name, column, values) for name, column in columns.items()}


def _refuse_cut_datetimes(columns: dict[str, pa.Array], values: list[dict[str, Any]]) -> None:
    """Where dates and datetimes meet in a column, Arrow makes it one of dates and drops the time of day."""
    for name in [name for name, column in columns.items() if pa.types.is_date(column.type)]:
        column = [value.get(name) for value in values]
        has_time = [isinstance(value, datetime) for value in column]
        if any(has_time):
            kinds = [None if value is None else timed for value, timed in zip(column, has_time, strict=True)]
            first = next(kind for kind in kinds if kind is not None)
            raise _misfit(name, column, kinds.index(not first))


def _empty_dicts_as_null(name: str, column: pa.Array, values: list[dict[str, Any]]) -> pa.Array:
    """Parquet cannot store a struct without fields, so ``{}`` means null wherever it comes."""
    if not pa.types.is_struct(column.type):
        return column
    empty = pa.array([value.get(name) == {} for value in values])
    return pc.if_else(empty, pa.scalar(None, column.type), column)


def _first_misfit(values: list[dict[str, Any]]) -> BadValueError:
    """The first row whose value does not fit with those before it, and its column."""
    names = {name: None for value in values for name in value}
    for name in names:
        column = [value.get(name) for value in values]
        row = _first_failure(column, pa.array)
        if row is not None:
            return _misfit(name, column, row)
    row = _first_failure(values, pa.array)
    return BadValueError(row or 0, f"the record {_shown(values[row or 0])} cannot be converted to columns")


def _misfit(name: str, column: list[Any], row: int) -> BadValueError:
    before = next((type(value).__name__ for value in column[:row] if value is not None), None)
    after = f" after {before} values" if before else ""
    return BadValueError(row, f"column {name!r} has the value {_shown(column[row])}, which does not fit{after}")


def _first_failure(values: Any, convert: Callable[[Any], object]) -> int | None:
    """Index of the first value (of a list or array) that makes the conversion of all up to it fail, by bisection."""
    if _converts(values, convert):
        return None
    good, bad = 0, len(values)
    while bad - good > 1:
        middle = (good + bad) // 2
        if _converts(values[:middle], convert):
            good = middle
        else:
            bad = middle
    return bad - 1


def _converts(values: Any, convert: Callable[[Any], object]) -> bool:
    try:
        convert(values)
    except _CONVERSION_ERRORS:
        return False
    return True


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."  # noqa: PLR2004 - enough to recognise it


def _timestamps(column: pa.Array | None, rows: Sequence[Row], name: str) -> pa.Array:
    """Give records without the timestamp column the Kafka timestamp; a null of the record's own stays null."""
    if column is None:
        return pa.array([row.timestamp for row in rows], pa.int64())
    lacking = [index for index, row in enumerate(rows) if name not in row.value] if column.null_count else []
    if not lacking:
        return column
    kind = pa.int64() if pa.types.is_null(column.type) or pa.types.is_integer(column.type) else column.type
    stamps = [None if name in row.value else row.timestamp for row in rows]
    try:
        filler = _kafka_timestamps(stamps, kind)
    except _CONVERSION_ERRORS:
        found = _first_failure([stamps[index] for index in lacking], lambda some: _kafka_timestamps(some, kind))
        row = lacking[found or 0]
        reason = f"it has no {name!r}, and its Kafka timestamp {stamps[row]} does not fit the column's {kind} values"
        raise BadValueError(row, reason) from None
    return pc.coalesce(column.cast(kind), filler)


def _kafka_timestamps(stamps: list[int | None], kind: pa.DataType) -> pa.Array:
    """Kafka timestamps (ms since the epoch) in the type of the column they complete."""
    millis = pa.array(stamps, pa.int64())
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return millis.cast(kind)
    if pa.types.is_timestamp(kind):
        return millis.cast(pa.timestamp("ms", "UTC" if kind.tz else None)).cast(kind)
    if pa.types.is_date(kind):
        return millis.cast(pa.timestamp("ms")).cast(kind, safe=False)
    if pa.types.is_string(kind):
        return pa.array([None if ms is None else _iso(ms) for ms in stamps], kind)
    raise TypeError(kind)


def _iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")


def _keys(rows: Sequence[Row]) -> pa.Array:
    """The Kafka keys; as a column they win over a field of the same name."""
    keys = [row.key for row in rows]
    try:
        return pa.array(keys)
    except _CONVERSION_ERRORS:
        row = _first_failure(keys, pa.array) or 0
        raise BadValueError(row, f"the key {_shown(keys[row])} does not fit the keys before it") from None


def _storable(columns: dict[str, pa.Array]) -> pa.Table:
    """Columns in types that Parquet and Spark can hold; those without any value are left out."""
    typed = {name: (column, _storable_type(column.type)) for name, column in columns.items()}
    return pa.table({name: _stored(name, column, kind) for name, (column, kind) in typed.items() if kind})


def _stored(name: str, column: pa.Array, kind: pa.DataType) -> pa.Array:
    if kind == column.type:
        return column
    try:
        return _recast(column, kind)
    except _CONVERSION_ERRORS:
        row = _first_failure(column, lambda some: _recast(some, kind)) or 0
        raise BadValueError(
            row, f"column {name!r} has the value {_shown(column[row].as_py())}, beyond {kind}"
        ) from None


def _storable_type(kind: pa.DataType) -> pa.DataType | None:
    """The type a column is stored in, ``None`` when no value has shown its type yet.

    Parquet has no empty struct; Spark has no nanoseconds, no void, and no unsigned or half-size numbers as NumPy has.
    The elements of a list that is always empty are text until a value says otherwise.
    """
    if pa.types.is_null(kind):
        return None
    if pa.types.is_struct(kind):
        fields = [(field.name, _storable_type(field.type)) for field in kind]
        kept = [pa.field(name, inner) for name, inner in fields if inner is not None]
        return pa.struct(kept) if kept else None
    if pa.types.is_list(kind):
        return pa.list_(_storable_type(kind.value_type) or pa.string())
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return pa.timestamp("us", kind.tz)
    if pa.types.is_time(kind):
        return pa.string()  # Spark writes no time of day to Parquet
    if pa.types.is_unsigned_integer(kind):
        return pa.int64()
    if pa.types.is_decimal256(kind):
        return pa.decimal128(_MAX_DIGITS, min(kind.scale, _MAX_DIGITS))
    return pa.float32() if pa.types.is_float16(kind) else kind


def _recast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast to a storable type; struct fields are matched by name, dropped ones left out."""
    if pa.types.is_struct(kind):
        # By position: a name that begins with a dot or a bracket would be read as a path.
        places = [array.type.get_field_index(field.name) for field in kind]
        children = [_recast(pc.struct_field(array, at), field.type) for at, field in zip(places, kind, strict=True)]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=array.is_null())
    if pa.types.is_list(kind):
        values = _recast(array.values, kind.value_type)
        mask = array.is_null() if array.null_count else None
        return pa.ListArray.from_arrays(array.offsets, values, kind, mask=mask)
    if pa.types.is_nested(array.type):  # structs without a typed field, standing in as null text
        return pa.nulls(len(array), kind)
    return array.cast(kind, safe=not pa.types.is_temporal(kind))  # digits below a microsecond may go
