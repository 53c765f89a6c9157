"""Reads which offsets the rows of each batch have, and keeps them, as ranges, in a temporary file."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, starmap
from operator import attrgetter
from typing import IO, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from app.commands.audit.batches import SHARED, Batch, File, rows_of
from app.commands.audit.findings import Listing
from app.commands.audit.offset_reader import OFFSET_COLUMN, PARTITION_COLUMN, TOPIC_COLUMN, read_ranges
from app.commands.audit.ranges import RANGES, clipped, count, joined, outside, single, sort
from app.commands.side_by_side import side_by_side
from app.storage.base import ObjectStore

_BATCH = ("owner", "number")
RANGES_AT_ONCE = 1 << 20


class Misplaced(NamedTuple):
    """A file with offsets outside those of its name: the first range of them, and how many there are in all."""

    key: str
    first: int
    last: int
    offsets: int


class HeldOffsets:
    """The ranges of offsets of all batches. In memory are those of one batch, and of the files that are being read.

    Args:
        file: a temporary one for the ranges.
        store, root: where the table is.
        workers: how many files are read at once.
        most: how many misplaced files are kept.

    Attributes:
        misplaced: files with offsets outside those of their names.
        without_offsets: how many files do not say the offsets of their rows; all offsets of their batches count.
    """

    def __init__(self, file: IO[bytes], store: ObjectStore, root: str, workers: int, most: int) -> None:
        self._file = file
        self._store = store
        self._root = root
        self._workers = workers
        self.misplaced = Listing[Misplaced](most)
        self.without_offsets = 0

    def read(self, files: pa.Table, batches: pa.Table) -> pa.Table:
        """Read the files.

        Returns:
            The batches, with a column ``slot`` that says where their ranges are.

        Raises:
            ConnectorError: the store's; ``FatalError`` for a file that cannot be read.
            OSError: the temporary folder has no more space.
        """
        order = [(name, "ascending") for name in _BATCH]
        batches = batches.sort_by(order)
        with pa.ipc.new_file(pa.PythonFile(self._file, "w"), RANGES) as sink:
            for ranges in self._ranges(files.sort_by(order), batches):
                sink.write_batch(ranges)
        return batches.append_column("slot", pa.array(range(batches.num_rows), pa.int64()))

    def portions(self, batches: pa.Table) -> Iterator[pa.RecordBatch]:
        """Yield the ranges of a topic-partition, sorted by ``first``, each with the row of its batch.

        Args:
            batches: sorted by their first offsets, with the column ``slot``.
        """
        reader = pa.ipc.open_file(pa.PythonFile(self._file, "r"))
        waiting: list[pa.RecordBatch] = []
        rows, most = 0, RANGES_AT_ONCE
        for row, (first, slot) in enumerate(rows_of(batches.select(["first", "slot"]))):
            if rows >= most:
                known = sort(pa.concat_batches(waiting))
                final = pc.search_sorted(known["first"], first).as_py()  # later ones begin with this batch or behind
                yield known[:final]
                waiting = [known[final:]]
                rows = waiting[0].num_rows
                most = max(RANGES_AT_ONCE, 2 * rows)
            ranges = reader.get_batch(slot)
            waiting.append(ranges.append_column("batch", pa.repeat(pa.scalar(row, pa.int64()), ranges.num_rows)))
            rows += ranges.num_rows
        yield sort(pa.concat_batches(waiting))

    def _ranges(self, files: pa.Table, batches: pa.Table) -> Iterator[pa.RecordBatch]:
        """Yield the ranges of each batch. Several rows of one offset are one: a message may have become several."""
        read = side_by_side(self._workers, self._read, _with_batches(files, batches))
        for of_batch, group in groupby(read, key=lambda each: each[0][1]):
            held = {batch: [single(batch.first, batch.last)] if batch.merged else [] for batch in of_batch}
            for (file, _), found in group:
                if file is None:
                    continue
                named = {(batch.topic, batch.partition): batch for batch in of_batch if _may_hold(file, batch)}
                self.without_offsets += found is None
                whole = {tp: single(batch.first, batch.last) for tp, batch in named.items()}
                for tp, ranges in (whole if found is None else found).items():
                    batch = named.get(tp)
                    self._check(file, ranges, batch)
                    if batch:
                        held[batch].append(clipped(ranges, batch.first, batch.last))
            yield from map(joined, held.values())

    def _read(self, item: tuple[File | None, Sequence[Batch]]) -> Mapping[tuple[Any, ...], pa.RecordBatch] | None:
        """The ranges in a file, by topic (as names have it) and partition; ``None`` if it does not say them."""
        file, batches = item
        if file is None:
            return {}
        topics = {batch.topic for batch in batches}
        known: tuple[Any, ...] = ()
        columns: tuple[str, ...] = (TOPIC_COLUMN, PARTITION_COLUMN)
        if file.partition != SHARED:
            known, columns = (file.topic, file.partition), ()
        elif len(topics) == 1:
            known, columns = (*topics,), (PARTITION_COLUMN,)
        found = read_ranges(self._store, file.key, file.size, OFFSET_COLUMN, columns)
        return found and {(*known, *values): ranges for values, ranges in found.items()}

    def _check(self, file: File, ranges: pa.RecordBatch, batch: Batch | None) -> None:
        wrong = outside(ranges, batch.first, batch.last) if batch else ranges
        if wrong.num_rows:
            first, last = (column[0].as_py() for column in wrong.columns)
            self.misplaced.add(Misplaced(file.key.removeprefix(f"{self._root}/"), first, last, count(wrong)))


def _with_batches(files: pa.Table, batches: pa.Table) -> Iterator[tuple[File | None, Sequence[Batch]]]:
    """Each file with all parts of its batch, ``None`` for a batch with merged files alone; both sorted by batches."""
    by_batch = attrgetter(*_BATCH)
    waiting = groupby(starmap(File, rows_of(files)), by_batch)
    following = next(waiting, None)
    for batch, group in groupby(starmap(Batch, rows_of(batches)), by_batch):
        parts = tuple(group)
        if following and following[0] == batch:
            yield from ((file, parts) for file in following[1])
            following = next(waiting, None)
        else:
            yield None, parts


def _may_hold(file: File, batch: Batch) -> bool:
    return file.partition == SHARED or file[:4] == batch[:4]
