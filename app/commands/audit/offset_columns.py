"""Offsets that a Parquet file in the store holds, read without its other columns."""

import pyarrow as pa
import pyarrow.parquet as pq

from app.errors import FatalError
from app.storage.base import ObjectStore
from app.table.parquet_reader import RangeFile

_ROWS_AT_ONCE = 1 << 16


def read_offsets(store: ObjectStore, key: str, size: int, column: str) -> pa.Array | None:
    """The offsets in a file; a small file is one request to the store, others three or more.

    Args:
        store: where the file is.
        key: the file.
        size: of the file, in bytes.
        column: the name of the column that holds offsets.

    Returns:
        The distinct ones, int64 without nulls in any order; ``None`` for a file that has no such column of integers.

    Raises:
        ConnectorError: the store's; ``FatalError`` also for an object that is no Parquet file.
    """
    try:
        with pq.ParquetFile(RangeFile(store, key, size)) as file:
            schema = file.schema_arrow
            if schema.names.count(column) != 1 or not pa.types.is_int64(schema.field(column).type):
                return None
            batches = file.iter_batches(_ROWS_AT_ONCE, columns=[column], use_threads=False)
            return pa.chunked_array([batch.column(0).drop_null() for batch in batches], pa.int64()).unique()
    except pa.ArrowException as error:
        raise FatalError(
            f"reading the column {column} of {store.uri}/{key}",
            f"it is no sound Parquet file: {' '.join(str(error).split()).rstrip('.')}",
            "Move it out of the folder, or restore it",
        ) from error
