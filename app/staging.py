"""Steps 1 and 2: a batch of rows → one Arrow table → a Parquet file that Spark reads fast."""

from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from app.errors import DataError
from app.model import Batch, FileGroup, StagedFile
from app.partitioning import PartitionSpec, file_name, group_ids, partition_columns, too_long
from app.records import KEY_COLUMN, to_table
from app.timestamps import BadValueError

_GROUP_COLUMN = "__file_group"


def stage(batch: Batch, spec: PartitionSpec, table_root: str, path: Path) -> StagedFile:
    """Write the batch to ``path``, every row marked with the file it belongs to.

    The file is uncompressed and without dictionaries or statistics: it is read once, on this machine, and 200,000 rows
    of it take 30 ms to hand over. Groups are integers rather than the partition columns themselves because Spark's
    dynamic partition write then sorts by one int: 1.5 times as fast as by four strings, and no value can upset it.

    Raises:
        DataError: a value that fits no column or folder, with its topic, partition and offset.
    """
    try:
        table = to_table(list(chain.from_iterable(batch.rows)), spec.timestamp_column)
        ids, groups = _group(batch, table, spec, table_root)
    except BadValueError as error:
        raise _data_error(batch, error) from None
    data = _without_partition_columns(table, spec)
    group_column = _unused_name(data.column_names)
    pq.write_table(
        data.append_column(group_column, ids),
        path,
        compression="none",
        use_dictionary=False,
        write_statistics=False,
        row_group_size=max(1, data.num_rows),
    )
    return StagedFile(path, group_column, groups)


def _group(
    batch: Batch, table: pa.Table, spec: PartitionSpec, table_root: str
) -> tuple[pa.Array, tuple[FileGroup, ...]]:
    """The group of every row, and the groups: one per Hive partition and topic-partition."""
    values = partition_columns(table, spec)
    part_of_row = pa.concat_arrays(
        [pa.repeat(pa.scalar(index, pa.int32()), len(rows)) for index, rows in enumerate(batch.rows)]
    )
    ids = group_ids([*values, part_of_row])
    rows = pa.table({"id": ids, "row": pa.arange(0, len(ids))})
    counted = rows.group_by("id").aggregate([("row", "min"), ("row", "count")]).sort_by("id")
    groups = []
    for first, count in zip(counted["row_min"].to_pylist(), counted["row_count"].to_pylist(), strict=True):
        part = batch.parts[part_of_row[first].as_py()]
        folder_values = {name: array[first].as_py() for name, array in zip(spec.columns, values, strict=True)}
        reason = too_long(table_root, folder_values, file_name(part))
        if reason:
            raise BadValueError(first, reason)
        groups.append(FileGroup(part, folder_values, count))
    return ids, tuple(groups)


def _without_partition_columns(table: pa.Table, spec: PartitionSpec) -> pa.Table:
    """Partition values are read from the folder; a file needs at least one column all the same."""
    kept = [name for name in table.column_names if name not in spec.columns]
    return table.select(kept) if kept else pa.table({KEY_COLUMN: pa.nulls(table.num_rows, pa.string())})


def _unused_name(taken: list[str]) -> str:
    name = _GROUP_COLUMN
    while name in taken:
        name += "_"
    return name


def _data_error(batch: Batch, error: BadValueError) -> DataError:
    row = error.row
    for part, rows in zip(batch.parts, batch.rows, strict=True):
        if row < len(rows):
            return DataError(
                f"converting the record of {part.offsets.tp} at offset {rows[row].offset}",
                error.reason,
                "Correct it in app/transform.py or at its producer; until then its batch is not written",
            )
        row -= len(rows)
    raise error
