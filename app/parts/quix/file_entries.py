"""The descriptions of files in requests: entries, and zone maps with the smallest and largest value of each column.

A reader skips a file if the zone maps exclude its condition. Therefore a bound may be too wide but never too narrow. If
a bound is uncertain, the column has no zone map.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types

from app.model import KEY_COLUMN, DataFile
from app.table.type_names import scalar_count

MOST_FILES: Final = 1_000
# Web servers accept a body of 1 MiB unless configured otherwise, and the source needs some of it.
MOST_BYTES: Final = 900_000
_Bounds = tuple[Any, Any]
_WITH_BOUNDS = (types.is_integer, types.is_floating, types.is_decimal, types.is_timestamp, types.is_date)


def column_stats(metadata: pq.FileMetaData, columns: frozenset[str] | None) -> Mapping[str, Mapping[str, Any]]:
    """Return the zone maps of a file that Spark wrote, in the catalog's form. ``columns=None`` means all columns.

    Returns:
        By column: ``type`` (``numeric`` with floats as bounds, ``timestamp`` with ISO 8601 texts), ``min``, ``max``,
        ``null_count`` and ``value_count`` (values other than null). Only columns of numbers, decimals, dates and
        timestamps with at least one value, without the key, and without fields of structs and lists.
    """
    stats = {}
    groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
    for name, kind, leaf in _plain_columns(metadata.schema.to_arrow_schema()):
        if name == KEY_COLUMN or (columns is not None and name not in columns):
            continue
        statistics = [(group.num_rows, group.column(leaf).statistics) for group in groups]
        if not all(each and each.has_null_count for _, each in statistics):
            continue
        nulls = sum(each.null_count for _, each in statistics)
        bounds = _written_bounds([each for rows, each in statistics if each.null_count < rows], kind)
        if bounds is not None:
            low, high = bounds
            stats[name] = {
                "type": "timestamp" if types.is_temporal(kind) else "numeric",
                "min": low,
                "max": high,
                "null_count": nulls,
                "value_count": metadata.num_rows - nulls,
            }
    return stats


def _plain_columns(schema: pa.Schema) -> Iterator[tuple[str, pa.DataType, int]]:
    """Yield name, type and position of each column that can have a zone map.

    The path does not identify a column: the field ``b`` of a struct ``a`` and a column ``a.b`` have the same path.
    """
    leaf = 0
    for field in schema:
        if any(is_kind(field.type) for is_kind in _WITH_BOUNDS):
            yield field.name, field.type, leaf
        leaf += scalar_count(field.type)


def _written_bounds(groups: Sequence[pq.Statistics], kind: pa.DataType) -> _Bounds | None:
    """Return the smallest and largest value of row groups with values in the catalog's form; ``None`` if uncertain."""
    try:
        values = [value for statistics in groups for value in (statistics.min, statistics.max)]
    except OverflowError:  # a date after the year 9999, which neither Python nor ISO 8601 supports
        return None
    if not values or any(value is None for value in values):
        return None
    # In SQL, NaN is larger than all numbers, so x > 100 must find a file with NaN. In Spark's files, NaN may be the
    # largest value of a row group. JSON has no infinity, so the request would be refused.
    if any(isinstance(value, float) and not math.isfinite(value) for value in values):
        return None
    low, high = min(values), max(values)
    if types.is_temporal(kind):
        return low.isoformat(), high.isoformat()
    below, above = float(low), float(high)  # above 2**53, most integers lie between two floats
    return (
        math.nextafter(below, -math.inf) if below > low else below,
        math.nextafter(above, math.inf) if above < high else above,
    )


def entry(file: DataFile) -> Mapping[str, Any]:
    """Return the description with which readers find the file and its rows."""
    return {
        "file_path": file.uri,
        "file_size": file.size,
        "last_modified": file.last_modified.isoformat(),
        "partition_values": dict(file.partition_values),
        "row_count": file.rows,
    }


def portions(
    files: Sequence[DataFile],
    describe: Callable[[DataFile], Mapping[str, Any]],
    most_bytes: int = MOST_BYTES,
) -> Iterator[Sequence[DataFile]]:
    """Divide files into portions whose descriptions fit into a request. A file that is too large is sent separately."""
    portion: list[DataFile] = []
    size = 0
    for file in files:
        more = len(json.dumps(describe(file))) + 2  # the comma and blank between two descriptions
        if portion and (len(portion) == MOST_FILES or size + more > most_bytes):
            yield portion
            portion, size = [], 0
        portion.append(file)
        size += more
    if portion:
        yield portion
