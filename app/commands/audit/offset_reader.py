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
_KEYS: Final = {PARTITION_COLUMN: pa.int32(), TOPIC_COLUMN: pa.string()}
_ROWS_AT_ONCE = 1 << 16


def read_ranges(
    store: ObjectStore, key: str, size: int, offset_column: str, key_columns: Sequence[str] = ()
) -> Mapping[tuple[Any, ...], pa.RecordBatch] | None:
    """The ranges of the offsets in a file; a small file is one request to the store, others three or more.

    Args:
        store: where the file is.
        key: the file.
        size: of the file, in bytes.
        offset_column: the column that holds offsets (int64).
        key_columns: those that say of which topic-partition a row is.

    Returns:
        The ranges by the values of the key columns, topics as file names have them; ``None`` for a file that lacks one
        of the columns.

    Raises:
        ConnectorError: the store's; ``FatalError`` also for an object that is no Parquet file.
    """
    kinds = {offset_column: pa.int64(), **{name: _KEYS[name] for name in key_columns}}
    found = defaultdict[tuple[Any, ...], list[pa.RecordBatch]](list)
    try:
        with pq.ParquetFile(RangeFile(store, key, size)) as file:
            schema = file.schema_arrow
            if any(schema.names.count(name) != 1 or schema.field(name).type != kind for name, kind in kinds.items()):
                return None
            for rows in file.iter_batches(_ROWS_AT_ONCE, columns=list(kinds), use_threads=False):
                for values, offsets in _by_key(rows.drop_null(), offset_column, key_columns):
                    found[values].append(ranges_of(offsets))
    except pa.ArrowException as error:
        raise FatalError(
            f"reading the column {offset_column} of {store.uri}/{key}",
            f"it is no sound Parquet file: {one_line(str(error))}",
            "Move it out of the folder, or restore it",
        ) from error
    return {values: joined(tables) for values, tables in found.items()}


def _by_key(
    rows: pa.RecordBatch, offset_column: str, key_columns: Sequence[str]
) -> Iterator[tuple[tuple[Any, ...], pa.Array]]:
    if not key_columns:
        yield (), rows[offset_column]
        return
    table = pa.Table.from_batches([rows]).group_by(key_columns, use_threads=False).aggregate([(offset_column, "list")])
    lists = table[f"{offset_column}_list"]
    for row, values in enumerate(zip(*(table[name].to_pylist() for name in key_columns), strict=True)):
        named = tuple(topic_in_names(value) if isinstance(value, str) else value for value in values)
        yield named, lists[row].values
