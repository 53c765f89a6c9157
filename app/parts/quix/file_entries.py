"""Describes files for requests to the catalog. A zone map contains the smallest and the largest value of a column.

A reader skips a file if the zone maps show that no row meets the reader's condition. Therefore a bound may be too wide,
but never too narrow. If a bound is uncertain, the column has no zone map.
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
# By default, web servers accept a request of up to 1 MiB. The rest is for other fields of the request.
MOST_BYTES: Final = 900_000
_Bounds = tuple[Any, Any]
_WITH_BOUNDS = (types.is_integer, types.is_floating, types.is_decimal, types.is_timestamp, types.is_date)


def column_stats(metadata: pq.FileMetaData, columns: frozenset[str] | None) -> Mapping[str, Mapping[str, Any]]:
    """Return the zone maps of a file that Spark has written, for these columns. ``None`` means all columns.

    Returns:
        For each column: ``type`` (``numeric`` with floats as bounds, ``timestamp`` with ISO 8601 texts), ``min``,
        ``max``, ``null_count`` and ``value_count`` (without nulls). A column must contain numbers, decimals, dates or
        timestamps, and at least one value. The message key, and fields of structs and lists, have no zone map.
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
    """Yield the name, type and position of each column that can have a zone map.

    A path cannot identify a column, because the field ``b`` of a struct ``a`` and the column ``a.b`` have equal paths.
    """
    leaf = 0
    for field in schema:
        if any(is_kind(field.type) for is_kind in _WITH_BOUNDS):
            yield field.name, field.type, leaf
        leaf += scalar_count(field.type)


def _written_bounds(groups: Sequence[pq.Statistics], kind: pa.DataType) -> _Bounds | None:
    """Return the smallest and the largest value of these row groups, in the catalog's form; ``None`` if uncertain."""
    try:
        values = [value for statistics in groups for value in (statistics.min, statistics.max)]
    except OverflowError:  # Python and ISO 8601 do not support dates after the year 9999
        return None
    if not values or any(value is None for value in values):
        return None
    # In SQL, NaN is larger than all numbers, so a query for x > 100 must read a file with NaN. Spark may write NaN as
    # the largest value of a row group. JSON does not support NaN and infinity, so the catalog would refuse the request.
    if any(isinstance(value, float) and not math.isfinite(value) for value in values):
        return None
    low, high = min(values), max(values)
    if types.is_temporal(kind):
        return low.isoformat(), high.isoformat()
    below, above = float(low), float(high)  # most integers above 2**53 are between two floats
    return (
        math.nextafter(below, -math.inf) if below > low else below,
        math.nextafter(above, math.inf) if above < high else above,
    )


def entry(file: DataFile) -> Mapping[str, Any]:
    """Return the description of a file, which readers use to find the file."""
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
    """Divide files into portions whose descriptions fit into a request. Each larger file is a separate portion."""
    portion: list[DataFile] = []
    size = 0
    for file in files:
        more = len(json.dumps(describe(file))) + 2  # the comma and space between two descriptions
        if portion and (len(portion) == MOST_FILES or size + more > most_bytes):
            yield portion
            portion, size = [], 0
        portion.append(file)
        size += more
    if portion:
        yield portion
