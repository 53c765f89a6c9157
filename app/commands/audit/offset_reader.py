"""Reads the offsets that files hold, without their other columns."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from app.commands.audit.ranges import joined, ranges_of
from app.errors import FatalError, one_line
from app.storage.base import ObjectStore
from app.table.layout import topic_in_names
from app.table.parquet_reader import RangeFile

OFFSET_COLUMN: Final = "__offset"
PARTITION_COLUMN: Final = "__partition"
TOPIC_COLUMN: Final = "__topic"
_KINDS: Final = {TOPIC_COLUMN: pa.string(), PARTITION_COLUMN: pa.int32()}
_ROWS_AT_ONCE = 1 << 16


def read_ranges(
    store: ObjectStore, key: str, size: int, offset_column: str, known: Mapping[str, Any]
) -> Mapping[tuple[str, int], pa.RecordBatch] | None:
    """The ranges of the offsets in a file by topic and partition; ``None`` for a file that lacks one of the columns.

    A small file is one request to the store, others three or more. ``known`` has topic (as file names have it) and
    partition by their columns, where all rows have the same.
    """
    unknown = [name for name in _KINDS if name not in known]
    kinds = {offset_column: pa.int64(), **{name: _KINDS[name] for name in unknown}}
    found = defaultdict[tuple[str, int], list[pa.RecordBatch]](list)
    try:
        with pq.ParquetFile(RangeFile(store, key, size)) as file:
            schema = file.schema_arrow
            if any(schema.names.count(name) != 1 or schema.field(name).type != kind for name, kind in kinds.items()):
                return None
            for rows in file.iter_batches(_ROWS_AT_ONCE, columns=list(kinds), use_threads=False):
                for values, offsets in _by_values(rows.drop_null(), offset_column, unknown):
                    of_rows = {**known, **values}
                    found[of_rows[TOPIC_COLUMN], of_rows[PARTITION_COLUMN]].append(ranges_of(offsets))
    except pa.ArrowException as error:
        raise FatalError(
            f"reading the column {offset_column} of {store.uri}/{key}",
            f"it is no sound Parquet file: {one_line(str(error))}",
            "Move it out of the folder, or restore it",
        ) from error
    return {tp: joined(ranges) for tp, ranges in found.items()}


def _by_values(
    rows: pa.RecordBatch, offset_column: str, names: Sequence[str]
) -> Iterator[tuple[Mapping[str, Any], pa.Array]]:
    """The offsets by the values of these columns."""
    if not names:
        yield {}, rows[offset_column]
        return
    table = pa.Table.from_batches([rows]).group_by(names, use_threads=False).aggregate([(offset_column, "list")])
    for row, values in enumerate(table.select(names).to_pylist()):
        if TOPIC_COLUMN in values:
            values[TOPIC_COLUMN] = topic_in_names(values[TOPIC_COLUMN])
        yield values, table[f"{offset_column}_list"][row].values
