"""Lists the files of a table, and of its dead letter, as Arrow tables: a row is a file, with what its name says."""

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, NamedTuple

import pyarrow as pa

from app.commands.audit.findings import Listing
from app.journal.survey import survey
from app.storage.base import ObjectStore
from app.table.layout import is_data_file, part_of, shared_file_of

# A batch has the offsets from ``first`` to ``last`` of a topic-partition.
PARTS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("first", pa.int64()),
        ("last", pa.int64()),
        ("owner", pa.string()),
        ("number", pa.int64()),
    ]
)
FILES = pa.unify_schemas([PARTS, pa.schema([("key", pa.string()), ("size", pa.int64())])])
SHARED: Final = -1  # stands for the partition, and for the offsets, of a file with rows of several topic-partitions
_FILES_AT_ONCE = 1 << 16


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


class TableFiles(NamedTuple):
    """The files of a table: those that it consists of, how many were left out, and the keys of others."""

    files: pa.Table
    left_out: int
    others: Listing[str]


def list_table(store: ObjectStore, root: str, most: int, *, with_keys: bool) -> TableFiles:
    """List the files, and leave out those of batches that are not in the table, while a connector may be at work.

    Pending batches are read after the listing: by then a batch in progress may be finished, or rolled back with its
    rows in another batch that was listed too. Files rolled back before the listing stay out even if no journal names
    them any more afterwards.

    Args:
        store: where the table is.
        root: its folder.
        most: how many keys of other Parquet files are kept.
        with_keys: keep the keys of all files, else only those of several topic-partitions.
    """
    rolled_back_before = survey(store, root).rolled_back
    others = Listing[str](most)

    def rows() -> Iterator[tuple[Any, ...]]:
        for listed in store.list(f"{root}/"):
            if not is_data_file(listed.key, root):
                continue
            if part := _columns_of(listed.key):
                has_key = with_keys or part[1] == SHARED
                yield *part, listed.key if has_key else "", listed.size
            else:
                others.add(listed.key.removeprefix(f"{root}/"))

    listed = as_table(rows(), FILES)
    after = survey(store, root)
    left_out = {part for key in rolled_back_before | after.rolled_back | after.pending if (part := _columns_of(key))}
    files = listed.join(as_table(iter(left_out), PARTS), PARTS.names, join_type="left anti")
    return TableFiles(files, listed.num_rows - files.num_rows, others)


def as_table(rows: Iterator[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    """A table of many rows, of which few are in Python at once."""
    batches = []
    while some := list(islice(rows, _FILES_AT_ONCE)):
        arrays = [pa.array(column, kind) for column, kind in zip(zip(*some, strict=True), schema.types, strict=True)]
        batches.append(pa.record_batch(arrays, schema=schema))
    return pa.Table.from_batches(batches, schema)


def rows_of(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    """The rows of a table, of which few are in Python at once."""
    for batch in table.to_batches(_FILES_AT_ONCE):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def columns_of_part(name: str) -> tuple[Any, ...] | None:
    """The columns of ``PARTS`` for the name of a file of one topic-partition; ``None`` for any other name."""
    part = part_of(name)
    return (*part.offsets.tp, part.offsets.first, part.offsets.last, part.owner, part.number) if part else None


def _columns_of(key: str) -> tuple[Any, ...] | None:
    name = key.rpartition("/")[2]
    shared = shared_file_of(name)
    return (shared.topic, SHARED, SHARED, SHARED, shared.owner, shared.number) if shared else columns_of_part(name)
