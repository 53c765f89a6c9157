"""Groups the files of a table into batches, by what names and footers say."""

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from app.commands.audit.files import FILES, PARTS, SHARED, TableFiles, as_table, rows_of
from app.commands.side_by_side import side_by_side
from app.model import OffsetRange
from app.spark.batch_offsets import read_batch_offsets
from app.storage.base import ObjectStore
from app.table.layout import topic_in_names
from app.table.parquet_reader import read_footer

BATCHES = pa.unify_schemas([PARTS, pa.schema([("files", pa.int64())])])


class Batch(NamedTuple):
    """A row of ``BATCHES``: the part of a batch that is of one topic-partition, and how many files may have of it."""

    topic: str
    partition: int
    first: int
    last: int
    owner: str
    number: int
    files: int


def group_files(store: ObjectStore, root: str, listed: TableFiles, workers: int) -> tuple[pa.Table, pa.Table]:
    """Group the files into batches.

    A file of several topic-partitions has the offsets of its batch in its footer. One footer of each batch is read.
    Where it has none, such files are noted among the others.

    Args:
        store: where the table is.
        root: its folder.
        listed: the table's files.
        workers: how many footers are read at once.

    Returns:
        The batches, in no order; and the files without those that belong to none.

    Raises:
        ConnectorError: the store's; ``FatalError`` for a file that cannot be read.
    """
    files = listed.files
    is_shared = pc.equal(files["partition"], SHARED)
    by_name = files.filter(pc.invert(is_shared)).group_by(PARTS.names).aggregate([([], "count_all")])
    by_size = files.filter(is_shared).sort_by([(name, "ascending") for name in ("owner", "number", "size", "key")])
    smallest = by_size.group_by(["owner", "number"], use_threads=False).aggregate(
        [("key", "first"), ("size", "first"), ([], "count_all")]
    )
    without_offsets: list[tuple[int, str, int]] = []

    def by_footer() -> Iterator[tuple[Any, ...]]:
        for (owner, number, *_, count), offsets in side_by_side(workers, partial(_offsets, store), rows_of(smallest)):
            if not offsets:
                without_offsets.append((SHARED, owner, number))
            for each in offsets:
                yield topic_in_names(each.tp.topic), each.tp.partition, each.first, each.last, owner, number, count

    batches = pa.concat_tables([by_name.rename_columns(BATCHES.names), as_table(by_footer(), BATCHES)])
    batches = batches.group_by(PARTS.names).aggregate([("files", "sum")]).rename_columns(BATCHES.names)
    keys = ["partition", "owner", "number"]
    others = as_table(iter(without_offsets), pa.schema([FILES.field(name) for name in keys]))
    for key in files.join(others, keys, join_type="left semi")["key"].to_pylist():
        listed.others.add(key.removeprefix(f"{root}/"))
    return batches, files.join(others, keys, join_type="left anti")


def _offsets(store: ObjectStore, row: tuple[Any, ...]) -> tuple[OffsetRange, ...]:
    _, _, key, size, _ = row
    return read_batch_offsets(read_footer(store, key, size).metadata)
