"""Lists the files of a table, and groups them into batches, by what names and footers say.

All tables here are Arrow's: a row is a file, or the part of a batch that is of one topic-partition.
"""

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from app.commands.audit.findings import Listing
from app.commands.batches_in_files import PARTS, Part, batches_in, named_part
from app.commands.side_by_side import side_by_side
from app.journal.survey import survey
from app.storage.base import ObjectStore
from app.table.layout import is_data_file, is_merged, shared_file_of
from app.table.parquet_reader import read_footer

FILES: Final = pa.unify_schemas([PARTS, pa.schema([("key", pa.string()), ("size", pa.int64())])])
# How many files may have rows of this part of the batch, and whether some are merged with files of other batches.
BATCHES: Final = pa.unify_schemas([PARTS, pa.schema([("files", pa.int64()), ("merged", pa.bool_())])])
SHARED: Final = -1  # stands for the partition, and for the offsets, of a file with rows of several topic-partitions
_OF_BATCH: Final = ("owner", "number")
_ROWS_AT_ONCE = 1 << 16


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

    ``most`` keys of other Parquet files are kept; of ours those of several topic-partitions, or all (``with_keys``).
    """
    rolled_back_before = survey(store, root).rolled_back
    others = Listing[str](most)
    merged: list[tuple[str, int, int]] = []

    def rows() -> Iterator[tuple[Any, ...]]:
        for listed in store.list(f"{root}/"):
            if not is_data_file(listed.key, root):
                continue
            if is_merged(listed.key):
                merged.append((listed.key, listed.size, 1))
            elif part := part_in_name(listed.key):
                yield *part, listed.key if with_keys or part.partition == SHARED else "", listed.size
            else:
                others.add(listed.key.removeprefix(f"{root}/"))

    listed = as_table(rows(), FILES)
    after = survey(store, root)
    left_out = {part for key in rolled_back_before | after.rolled_back | after.pending if (part := part_in_name(key))}
    settled = listed.join(as_table(iter(left_out), PARTS), PARTS.names, join_type="left anti")
    is_shared = pc.equal(settled["partition"], SHARED)
    named = settled.filter(pc.invert(is_shared)).group_by(PARTS.names).aggregate([([], "count_all")])
    named = named.append_column("merged", pa.repeat(pa.scalar(False), named.num_rows)).rename_columns(BATCHES.names)
    without: list[str] = []
    asked = chain(rows_of(_smallest_of_batches(settled.filter(is_shared))), merged)
    batches = pa.concat_tables([named, as_table(_by_footer(store, workers, asked, without), BATCHES)])
    batches = batches.group_by(PARTS.names).aggregate([("files", "sum"), ("merged", "max")])
    of_batch = ["partition", *_OF_BATCH]
    unreadable = as_table((part for key in without if (part := part_in_name(key))), PARTS).select(of_batch)
    files = settled.join(unreadable, of_batch, join_type="left anti")
    without_merged = [key for key in without if is_merged(key)]
    for key in settled.join(unreadable, of_batch, join_type="left semi")["key"].to_pylist() + without_merged:
        others.add(key.removeprefix(f"{root}/"))
    return TableFiles(
        files,
        batches.rename_columns(BATCHES.names),
        len(merged) - len(without_merged),
        listed.num_rows - settled.num_rows,
        others,
    )


def _by_footer(
    store: ObjectStore, workers: int, files: Iterable[tuple[str, int, int]], without: list[str]
) -> Iterator[tuple[Any, ...]]:
    """Yield rows of ``BATCHES``, from files with their sizes and the numbers of files that they stand for.

    ``without`` gets those whose footers say no offsets: other programs have written them, or what they are merged of.
    """
    for (key, _, count), footer in side_by_side(workers, lambda file: read_footer(store, *file[:2]), files):
        parts = batches_in(key, footer.metadata)
        yield from ((*part, count, is_merged(key)) for part in rows_of(parts))
        if not parts.num_rows and (footer.num_rows or not is_merged(key)):
            without.append(key)


def _smallest_of_batches(files: pa.Table) -> pa.Table:
    """Key and size of the smallest file of each batch, and how many it has. All have the same offsets in the footer."""
    by_size = files.sort_by([(name, "ascending") for name in (*_OF_BATCH, "size", "key")])
    smallest = by_size.group_by(_OF_BATCH, use_threads=False)
    return smallest.aggregate([("key", "first"), ("size", "first"), ([], "count_all")]).drop_columns([*_OF_BATCH])


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


def part_in_name(key: str) -> Part | None:
    """The part of a batch that a file's name tells, with ``SHARED`` for one of several; ``None`` for any other file."""
    shared = shared_file_of(key.rpartition("/")[2])
    return Part(shared.topic, SHARED, SHARED, SHARED, shared.owner, shared.number) if shared else named_part(key)
