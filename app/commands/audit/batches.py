"""Lists the files of a table, and groups them into batches, by what names and footers say.

All tables here are Arrow's: a row is a file, or the part of a batch that is of one topic-partition.
"""

from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from app.commands.audit.findings import Listing
from app.commands.batches_in_files import PARTS, batches_in
from app.commands.side_by_side import side_by_side
from app.journal.survey import survey
from app.model import OffsetRange
from app.spark.batch_offsets import read_batch_offsets
from app.storage.base import ObjectStore, StoredObject
from app.table.layout import is_data_file, is_merged, part_of, shared_file_of, topic_in_names
from app.table.parquet_reader import read_footer

FILES = pa.unify_schemas([PARTS, pa.schema([("key", pa.string()), ("size", pa.int64())])])
BATCHES = pa.unify_schemas([PARTS, pa.schema([("files", pa.int64()), ("merged", pa.bool_())])])
SHARED: Final = -1  # stands for the partition, and for the offsets, of a file with rows of several topic-partitions
_ROWS_AT_ONCE = 1 << 16


class File(NamedTuple):
    """A row of ``FILES``; ``size`` in bytes."""

    topic: str
    partition: int
    first: int
    last: int
    owner: str
    number: int
    key: str
    size: int


class Batch(NamedTuple):
    """A row of ``BATCHES``; ``files`` is how many files may have rows of this part of the batch.

    ``merged``: some of them are merged with files of other batches.
    """

    topic: str
    partition: int
    first: int
    last: int
    owner: str
    number: int
    files: int
    merged: bool


class TableFiles(NamedTuple):
    """The table's files and batches, in no order; the number of files left out; the keys of other Parquet files.

    ``merged`` is the number of files that ``compact`` has merged of others; they are in none of the other numbers.
    """

    files: pa.Table
    batches: pa.Table
    merged: int
    left_out: int
    others: Listing[str]


def list_table(store: ObjectStore, root: str, workers: int, most: int, *, with_keys: bool) -> TableFiles:
    """List the files, and leave out those of batches that are not in the table, while a connector may be at work.

    Pending batches are read after the listing: by then a batch in progress may be finished, or rolled back with its
    rows in another batch that was listed too. Files rolled back before the listing stay out even if no journal names
    them any more afterwards.

    Args:
        store: where the table is.
        root: its folder.
        workers: how many footers are read at once.
        most: how many keys of other Parquet files are kept.
        with_keys: keep the keys of all files, else only those of several topic-partitions.

    Raises:
        ConnectorError: the store's; ``FatalError`` for a file that cannot be read.
    """
    rolled_back_before = survey(store, root).rolled_back
    others = Listing[str](most)
    merged: list[StoredObject] = []

    def rows() -> Iterator[tuple[Any, ...]]:
        for listed in store.list(f"{root}/"):
            if not is_data_file(listed.key, root):
                continue
            if is_merged(listed.key):
                merged.append(listed)
            elif part := _columns_of(listed.key):
                has_key = with_keys or part[1] == SHARED
                yield *part, listed.key if has_key else "", listed.size
            else:
                others.add(listed.key.removeprefix(f"{root}/"))

    listed = as_table(rows(), FILES)
    after = survey(store, root)
    left_out = {part for key in rolled_back_before | after.rolled_back | after.pending if (part := _columns_of(key))}
    settled = listed.join(as_table(iter(left_out), PARTS), PARTS.names, join_type="left anti")
    batches, unreadable = _group(store, settled, workers)
    known = 0
    some = [batches]
    for file, (parts, has_rows) in side_by_side(workers, partial(_merged, store), merged):
        some.append(parts)
        if has_rows and not parts.num_rows:  # merged of files of other programs, or written anew by one
            others.add(file.key.removeprefix(f"{root}/"))
        else:
            known += 1
    batches = pa.concat_tables(some).group_by(PARTS.names).aggregate([("files", "sum"), ("merged", "max")])
    files = settled.join(unreadable, unreadable.column_names, join_type="left anti")
    for key in settled.join(unreadable, unreadable.column_names, join_type="left semi")["key"].to_pylist():
        others.add(key.removeprefix(f"{root}/"))
    return TableFiles(files, batches.rename_columns(BATCHES.names), known, listed.num_rows - settled.num_rows, others)


def _group(store: ObjectStore, files: pa.Table, workers: int) -> tuple[pa.Table, pa.Table]:
    """Return the batches; and which files of several topic-partitions have no offsets in their footers.

    Such a file has the offsets of its batch in its footer. One footer of each batch is read, that of the smallest file.
    """
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
                yield (
                    topic_in_names(each.tp.topic),
                    each.tp.partition,
                    each.first,
                    each.last,
                    owner,
                    number,
                    count,
                    False,
                )

    by_name = by_name.append_column("merged", pa.repeat(pa.scalar(False), by_name.num_rows))
    batches = pa.concat_tables([by_name.rename_columns(BATCHES.names), as_table(by_footer(), BATCHES)])
    keys = pa.schema([FILES.field(name) for name in ("partition", "owner", "number")])
    return batches, as_table(iter(without_offsets), keys)


def _offsets(store: ObjectStore, row: tuple[Any, ...]) -> tuple[OffsetRange, ...]:
    _, _, key, size, _ = row
    return read_batch_offsets(read_footer(store, key, size).metadata)


def _merged(store: ObjectStore, file: StoredObject) -> tuple[pa.Table, bool]:
    """The batches whose rows are in a merged file, as ``BATCHES``; and whether it has any rows."""
    footer = read_footer(store, file.key, file.size)
    parts = batches_in(file.key, footer.metadata)
    columns = [pa.repeat(pa.scalar(value, kind), len(parts)) for value, kind in ((1, pa.int64()), (True, pa.bool_()))]
    return pa.table([*parts.columns, *columns], schema=BATCHES), footer.num_rows > 0


def as_table(rows: Iterator[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    """A table of many rows, of which few are in Python at once."""
    batches = []
    while some := list(islice(rows, _ROWS_AT_ONCE)):
        arrays = [pa.array(column, kind) for column, kind in zip(zip(*some, strict=True), schema.types, strict=True)]
        batches.append(pa.record_batch(arrays, schema=schema))
    return pa.Table.from_batches(batches, schema)


def rows_of(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    """The rows of a table, of which few are in Python at once."""
    for batch in table.to_batches(_ROWS_AT_ONCE):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def columns_of_part(name: str) -> tuple[Any, ...] | None:
    """The columns of ``PARTS`` for the name of a file of one topic-partition; ``None`` for any other name."""
    part = part_of(name)
    return (*part.offsets.tp, part.offsets.first, part.offsets.last, part.owner, part.number) if part else None


def _columns_of(key: str) -> tuple[Any, ...] | None:
    name = key.rpartition("/")[2]
    shared = shared_file_of(name)
    return (shared.topic, SHARED, SHARED, SHARED, shared.owner, shared.number) if shared else columns_of_part(name)
