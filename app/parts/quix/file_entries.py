"""What requests say of files: the entry of each, and its zone maps, the smallest and largest value of each column.

A reader skips the file where they exclude what it looks for. A bound may therefore be too wide but never too narrow,
and where one is in doubt the column gets none at all.
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
# Web servers take a body of 1 MiB unless configured otherwise, and the source needs some of it.
MOST_BYTES: Final = 900_000
_Bounds = tuple[Any, Any]
_WITH_BOUNDS = (types.is_integer, types.is_floating, types.is_decimal, types.is_timestamp, types.is_date)


def column_stats(metadata: pq.FileMetaData, columns: frozenset[str] | None) -> Mapping[str, Mapping[str, Any]]:
    """Returns the zone maps of a file that Spark wrote, in the catalog's form; ``None`` for all columns.

    Returns:
        By column: ``type`` (``numeric`` with floats for bounds, ``timestamp`` with ISO 8601 texts), ``min``, ``max``,
        ``null_count`` and ``value_count`` (values that are not null). Only columns of numbers, decimals, dates and
        timestamps, with at least one value; without the key, and without fields of structs and lists.
    """
    stats = {}
    groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
    for name, kind, leaf in _plain_columns(metadata.schema.to_arrow_schema()):
        if name == KEY_COLUMN or (columns is not None and name not in columns):
            continue
        found = [(group.num_rows, group.column(leaf).statistics) for group in groups]
        if not all(its and its.has_null_count for _, its in found):
            continue
        nulls = sum(its.null_count for _, its in found)
        bounds = _written_bounds([its for rows, its in found if its.null_count < rows], kind)
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
    """Yields name, type and position of each column that can have a zone map.

    The position cannot be found by name: the field ``b`` of a struct ``a`` and a column ``a.b`` have the same path.
    """
    leaf = 0
    for field in schema:
        if any(is_kind(field.type) for is_kind in _WITH_BOUNDS):
            yield field.name, field.type, leaf
        leaf += scalar_count(field.type)


def _written_bounds(groups: Sequence[pq.Statistics], kind: pa.DataType) -> _Bounds | None:
    """Returns the smallest and largest value of row groups with values in the catalog's form, ``None`` if uncertain."""
    try:
        values = [value for its in groups for value in (its.min, its.max)]
    except OverflowError:  # a date beyond the year 9999, which neither Python nor ISO 8601 has
        return None
    if not values or any(value is None for value in values):
        return None
    # NaN: to SQL it is larger than every number, so a file with one must be found by x > 100. Spark lets it be the
    # largest value of its row group. Infinity: JSON has no word for it, and the request would be refused.
    if any(isinstance(value, float) and not math.isfinite(value) for value in values):
        return None
    low, high = min(values), max(values)
    if types.is_temporal(kind):
        return low.isoformat(), high.isoformat()
    below, above = float(low), float(high)  # beyond 2**53 most integers lie between two floats
    return (
        math.nextafter(below, -math.inf) if below > low else below,
        math.nextafter(above, math.inf) if above < high else above,
    )


def entry(file: DataFile) -> Mapping[str, Any]:
    """Describes a file as readers need it to find the file and its rows."""
    return {
        "file_path": file.uri,
        "file_size": file.size,
        "last_modified": file.last_modified.isoformat(),
        "partition_values": dict(file.partition_values),
        "row_count": file.rows,
    }


def portions(
    files: Sequence[DataFile],
    described: Callable[[DataFile], Mapping[str, Any]],
    most_bytes: int = MOST_BYTES,
) -> Iterator[Sequence[DataFile]]:
    """Divides files into those whose descriptions fit into one request; one that is too large by itself goes alone."""
    portion: list[DataFile] = []
    size = 0
    for file in files:
        more = len(json.dumps(described(file))) + 2  # the comma and blank between two of them
        if portion and (len(portion) == MOST_FILES or size + more > most_bytes):
            yield portion
            portion, size = [], 0
        portion.append(file)
        size += more
    if portion:
        yield portion
