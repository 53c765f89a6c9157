"""Reads which offsets the rows of each batch have, and keeps them, as ranges, in a temporary file."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, starmap
from operator import attrgetter
from typing import IO, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from app.commands.audit.batches import FILES, SHARED, rows_of
from app.commands.audit.findings import Listing
from app.commands.audit.offset_reader import OFFSET_COLUMN, PARTITION_COLUMN, TOPIC_COLUMN, read_ranges
from app.commands.audit.ranges import RANGES, clipped, count, joined, outside, single, sort
from app.commands.batches_in_files import PARTS, Part
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


class _File(NamedTuple):
    """A row of ``FILES``, with all parts of its batch. Without a key it stands for merged files with rows of a part."""

    part: Part
    key: str | None
    size: int
    parts: Sequence[Part]


class HeldOffsets:
    """The ranges of offsets of all batches, in a temporary file.

    In memory are those of one batch, and of the files that are being read. ``misplaced`` are files with offsets outside
    those of their names, ``without_offsets`` is how many files do not say the offsets of their rows; all offsets of
    their batches count.
    """

    def __init__(self, file: IO[bytes], store: ObjectStore, root: str, workers: int, most: int) -> None:
        self._file = file
        self._store = store
        self._root = root
        self._workers = workers
        self.misplaced = Listing[Misplaced](most)
        self.without_offsets = 0

    def read(self, files: pa.Table, batches: pa.Table) -> pa.Table:
        """Read the files, and return the batches with a column ``slot`` that says where their ranges are."""
        order = [(name, "ascending") for name in _BATCH]
        batches = batches.sort_by(order)
        merged = batches.filter(batches["merged"]).select(PARTS.names)
        files = pa.concat_tables([files, merged], promote_options="default").select(FILES.names).sort_by(order)
        with pa.ipc.new_file(pa.PythonFile(self._file, "w"), RANGES) as sink:
            for ranges in self._ranges(_with_parts(files, batches.select(PARTS.names))):
                sink.write_batch(ranges)
        return batches.append_column("slot", pa.array(range(batches.num_rows), pa.int64()))

    def portions(self, batches: pa.Table) -> Iterator[pa.RecordBatch]:
        """Yield the ranges of a topic-partition, sorted by ``first``, each with the row of its batch.

        The batches are sorted by their first offsets, and have the column ``slot``.
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

    def _ranges(self, files: Iterator[_File]) -> Iterator[pa.RecordBatch]:
        """Yield the ranges of each batch. Several rows of one offset are one: a message may have become several."""
        for parts, group in groupby(side_by_side(self._workers, self._read, files), key=lambda each: each[0].parts):
            held: dict[Part, list[pa.RecordBatch]] = {part: [] for part in parts}
            for file, found in group:
                may_hold = parts if file.part.partition == SHARED else [file.part]
                named = {(part.topic, part.partition): part for part in may_hold}
                self.without_offsets += found is None and file.key is not None
                whole = {tp: single(part.first, part.last) for tp, part in named.items()}
                for tp, ranges in (whole if found is None else found).items():
                    part = named.get(tp)
                    self._check(file, outside(ranges, part.first, part.last) if part else ranges)
                    if part:
                        held[part].append(clipped(ranges, part.first, part.last))
            yield from map(joined, held.values())

    def _read(self, file: _File) -> Mapping[tuple[str, int], pa.RecordBatch] | None:
        """The ranges in a file, by topic (as names have it) and partition; ``None`` if it does not say them."""
        if file.key is None:
            return None
        known: dict[str, Any] = {}
        if file.part.partition != SHARED:
            known = {TOPIC_COLUMN: file.part.topic, PARTITION_COLUMN: file.part.partition}
        elif len({part.topic for part in file.parts}) == 1:
            known = {TOPIC_COLUMN: file.parts[0].topic}
        return read_ranges(self._store, file.key, file.size, OFFSET_COLUMN, known)

    def _check(self, file: _File, wrong: pa.RecordBatch) -> None:
        if wrong.num_rows and file.key:
            first, last = (column[0].as_py() for column in wrong.columns)
            self.misplaced.add(Misplaced(file.key.removeprefix(f"{self._root}/"), first, last, count(wrong)))


def _with_parts(files: pa.Table, parts: pa.Table) -> Iterator[_File]:
    """Each file with all parts of its batch; both tables are sorted by batches, and have all of them."""
    of_batches = groupby(starmap(Part, rows_of(parts)), attrgetter(*_BATCH))
    of_files = groupby(((Part(*part), key, size) for *part, key, size in rows_of(files)), lambda each: each[0][4:])
    for (_, group), (_, some) in zip(of_batches, of_files, strict=True):
        all_parts = tuple(group)
        yield from (_File(*each, all_parts) for each in some)
