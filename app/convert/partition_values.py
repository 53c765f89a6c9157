"""Calculates the partition values of rows, which are the names of folders, and groups rows with equal values."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from numbers import Real
from operator import attrgetter, itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from app.bad_records.refusals import BadRowsError
from app.convert.scalars import OutOfRange, moment_at
from app.convert.time_folders import moments, time_parts
from app.convert.values import is_empty
from app.model import KEY_COLUMN, BatchPart, Row, known_timestamp
from app.reason_texts import Reason
from app.table.layout import TIME_COLUMNS, PartitionSpec, file_name, too_long

_MOST_OFFSETS = 10**8  # offsets in one batch
_MOST_BATCHES = 10**9  # batches of one process


def partition_columns(rows: Sequence[Row], spec: PartitionSpec, extra: Mapping[str, pa.Array] = {}) -> list[pa.Array]:
    """Calculates the partition values of each row. A row's values never depend on another row.

    If a record has no timestamp field, its Kafka timestamp is used. The value of any other missing field is null.
    ``extra`` contains columns that are not fields of the records, and overrides fields of the same name.

    Returns:
        One string array without nulls for each partition column of ``spec``. Each array is as long as ``rows``.

    Raises:
        BadRowsError: timestamps cannot be used, or partition values are not text. The error lists all these rows.
    """
    strings = {name: extra[name].cast(pa.string()) for name in spec.columns if name in extra}
    reasons: dict[int, Reason] = {}
    if any(column in TIME_COLUMNS for column in spec.columns):
        timestamps = _timestamps(rows, spec)
        reasons.update(_without_any_timestamp(rows, timestamps, spec.timestamp_column))
        try:
            strings.update(time_parts(timestamps, spec.time_zone))
        except BadRowsError as error:
            for row, reason in error.reasons.items():
                is_own = spec.timestamp_column in rows[row].value
                reasons[row] = reason.also(f" (field {spec.timestamp_column!r})" if is_own else " (Kafka's timestamp)")
    for column in (column for column in spec.columns if column not in {*TIME_COLUMNS, *extra}):
        try:
            strings[column] = _texts(rows, column, spec)
        except BadRowsError as error:
            reasons = error.reasons | reasons
    if reasons:
        raise BadRowsError(dict(sorted(reasons.items())))
    return [fill_null(strings[column], spec.null_value) for column in spec.columns]


def moments_of(rows: Sequence[Row], spec: PartitionSpec) -> pa.Array:
    """Returns each row's timestamp as a moment; null if the timestamp cannot be used."""
    return moments(_timestamps(rows, spec))


def _timestamps(rows: Sequence[Row], spec: PartitionSpec) -> list[Any]:
    """Returns the timestamp of each row. A Kafka timestamp, which is always in milliseconds, becomes a moment."""
    return _values(rows, spec.timestamp_column, spec, _moment)


def _moment(ms: int) -> datetime | OutOfRange | None:
    return None if known_timestamp(ms) is None else moment_at(ms, 1_000)


def _texts(rows: Sequence[Row], column: str, spec: PartitionSpec) -> pa.Array:
    """Returns the texts of a column. If the column has a path, missing values are read from nested fields."""
    texts, path = texts_of(_values(rows, column, spec), column), spec.path(column)
    if not path[1:] or not texts.null_count:
        return texts
    lacking = zip(rows, texts.is_null().to_pylist(), strict=True)
    return pc.coalesce(texts, texts_of([_value_inside(row, path) if lacks else None for row, lacks in lacking], column))


def _value_inside(row: Row, path: Sequence[str]) -> Any:
    value: Any = row.value
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _values(
    rows: Sequence[Row], column: str, spec: PartitionSpec, of_kafka: Callable[[int], Any] = known_timestamp
) -> list[Any]:
    """Returns a column's values. Kafka's message provides the key, and the timestamp if the field is missing."""
    if column == KEY_COLUMN:
        return [row.key for row in rows]
    records = map(attrgetter("value"), rows)
    try:
        return list(map(itemgetter(column), records))
    except KeyError:  # some records do not have the field
        if column == spec.timestamp_column:
            return [row.value[column] if column in row.value else of_kafka(row.timestamp) for row in rows]
        return [row.value.get(column) for row in rows]


def _without_any_timestamp(rows: Sequence[Row], timestamps: Sequence[Any], column: str) -> dict[int, Reason]:
    """Returns the reasons for rows without any timestamp, by row. Null in the field counts as a timestamp."""
    reason = Reason(f"it has no {column!r}, and its Kafka message has no timestamp")
    without = (index for index, value in enumerate(timestamps) if value is None and column not in rows[index].value)
    return {index: reason for index in without if known_timestamp(rows[index].timestamp) is None}


def fill_null(strings: pa.Array, null_value: str) -> pa.Array:
    """Replaces null and empty texts of a partition column with ``null_value``, the name of the null folder."""
    empty = pc.equal(strings, "")
    return pc.if_else(pc.fill_null(empty, True), null_value, strings)


def nulls_of(strings: pa.Array, spec: PartitionSpec) -> pa.Array:
    """Replaces the name of the null folder with null in the texts of a partition column."""
    return pc.if_else(pc.equal(strings, spec.null_value), pa.scalar(None, pa.string()), strings)


def texts_of(values: Sequence[Any], column: str) -> pa.Array:
    """Returns the text of each value for the folder's name; null for a missing value."""
    with suppress(UnicodeEncodeError, pa.ArrowException):  # some values are not text
        return pa.array(values, pa.string())
    if set(map(type, values)) <= {int, type(None)}:
        with suppress(OverflowError, pa.ArrowException):  # some numbers need more than 64 bits
            return pa.array(values, pa.int64()).cast(pa.string())
    texts: list[str | None] = []
    reasons: dict[int, Reason] = {}
    for row, value in enumerate(values):
        text = None
        try:
            text = _text(value)
            if text is not None:
                text.encode()
        except (ValueError, RecursionError) as error:
            # Half of a surrogate pair, or Python cannot convert the number or the nested value to text.
            cause = f"partition column {column!r} has a {type(value).__name__} that cannot become text"
            reasons[row] = Reason(cause).also("", f": {error}")
        texts.append(text)
    if reasons:
        raise BadRowsError(reasons)
    return pa.array(texts, pa.string())


def _text(value: Any) -> str | None:
    if value is None or (isinstance(value, dict) and is_empty(value)):
        return None
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("utf-8", errors="backslashreplace")
    if isinstance(value, Decimal) and value.is_nan():
        return None
    if isinstance(value, Real) and value != value:  # noqa: PLR0124 - NaN of Python or NumPy
        return None
    return str(value)


def group_ids(arrays: Sequence[pa.Array]) -> pa.Array:
    """Returns a number (int32) for each row. Rows with equal values have equal numbers, in order of first occurrence.

    Joined texts would not be unique: ``("a-b", "c")`` and ``("a", "b-c")``. Therefore the function combines codes.
    """
    first, *others = (array.dictionary_encode() for array in arrays)
    codes = first.indices
    for encoded in others:
        wide = pc.add(
            pc.multiply(codes.cast(pa.int64()), pa.scalar(max(1, len(encoded.dictionary)), pa.int64())),
            encoded.indices.cast(pa.int64()),
        )
        codes = wide.dictionary_encode().indices
    return codes.cast(pa.int32())


def refuse_too_long(
    values: Sequence[pa.Array], parts: Sequence[BatchPart], spec: PartitionSpec, table_root: str
) -> None:
    """Refuses rows whose object keys would be too long. The file names depend on the ``parts`` of the batch.

    Raises:
        BadRowsError: object keys would be too long. The error lists all these rows.
    """
    name = "x" * spec.computed_bytes + max((file_name([_with_longest_name(part)]) for part in parts), key=len)
    if not values or _are_surely_short(values, name, spec, table_root):
        return
    ids = group_ids(values)
    firsts = pa.table({"id": ids, "row": pa.arange(0, len(ids))}).group_by("id").aggregate([("row", "min")])
    unusable: dict[int, Reason] = {}
    folders = dict(zip(spec.columns, values, strict=True))
    for number, first in zip(firsts["id"].to_pylist(), firsts["row_min"].to_pylist(), strict=True):
        reason = too_long(table_root, values_of(first, folders), name)
        if reason:
            unusable[number] = Reason(reason)
    if unusable:
        of_rows = pc.is_in(ids, pa.array(list(unusable), ids.type))
        raise BadRowsError({row: unusable[ids[row].as_py()] for row in pc.indices_nonzero(of_rows).to_pylist()})


def _with_longest_name(part: BatchPart) -> BatchPart:
    """Returns the part with the longest possible file name, because the batch may still grow."""
    offsets = replace(part.offsets, last=part.offsets.last + _MOST_OFFSETS)
    return replace(part, offsets=offsets, number=_MOST_BATCHES)


def _are_surely_short(values: Sequence[pa.Array], name: str, spec: PartitionSpec, table_root: str) -> bool:
    """Whether the longest values of all columns fit into one object key. Each byte may be escaped to three."""
    longest = {
        column: "x" * (3 * (pc.max(pc.binary_length(array)).as_py() or 0))
        for column, array in zip(spec.columns, values, strict=True)
    }
    return too_long(table_root, longest, name) is None


def values_of(row: int, folders: Mapping[str, pa.Array]) -> Mapping[str, str]:
    return {name: texts[row].as_py() for name, texts in folders.items()}
