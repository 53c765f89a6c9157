"""Reads the offsets of the rows in files, and stores the offsets as ranges. Reads no columns with data."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import IO, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from app.errors import FatalError, one_line
from app.parts.audit.files import TableFiles, batch_in
from app.parts.audit.findings import RANGES, Misplaced, clipped, count, count_until, joined, outside, ranges_of, sort
from app.parts.maintenance.batch_metadata import Part, named_part
from app.storage.base import ObjectStore
from app.table.layout import dead_letter_root, topic_in_names
from app.table.parquet_reader import RangeFile
from app.work_pool import side_by_side

_TOPIC: Final = "__topic"
_PARTITION: Final = "__partition"
_KINDS: Final = {_TOPIC: pa.string(), _PARTITION: pa.int32()}
_ROWS_AT_ONCE: Final = 1 << 16
RANGES_AT_ONCE = 1 << 20

RangesByPartition = dict[tuple[str, int], pa.RecordBatch]  # key: topic as in file names, and partition


class _File(NamedTuple):
    """A file, and the parts of a batch that may have rows in the file."""

    key: str
    size: int
    parts: Sequence[Part]


class HeldOffsets:
    """Reads the offsets of each part of a batch, and stores the offsets as ranges in a temporary file.

    Memory contains only the ranges of one batch, and of the files that are being read. ``misplaced`` contains the files
    with offsets outside their batch. ``without_offsets`` is the number of files with unknown offsets. ``portions``
    assumes that these files contain all offsets of their batches.
    """

    def __init__(self, file: IO[bytes], store: ObjectStore, workers: int, table: TableFiles) -> None:
        self._table = table
        self._slots: dict[Part, int] = {}
        self.misplaced: list[Misplaced] = []
        self.without_offsets = table.merged_files
        read = side_by_side(workers, partial(_read, store, "__offset"), _by_batches(table))
        with pa.ipc.new_file(pa.PythonFile(file, "w"), RANGES) as sink:
            for _, files in groupby(read, lambda pair: pair[0].parts[0].batch):
                ranges_by_part = defaultdict[Part, list[pa.RecordBatch]](list)
                for data_file, ranges_by_partition in files:
                    self._keep(data_file, ranges_by_partition, ranges_by_part)
                for part, ranges in ranges_by_part.items():
                    self._slots[part] = len(self._slots)
                    sink.write_batch(joined(ranges))
        self._reader = pa.ipc.open_file(pa.PythonFile(file, "r"))

    def portions(self, parts: Sequence[Part]) -> Iterator[pa.RecordBatch]:
        """Yield the ranges of the sorted parts of one topic-partition, as portions for ``find``."""
        waiting: list[pa.RecordBatch] = []
        rows, most = 0, RANGES_AT_ONCE
        for row, part in enumerate(parts):
            if rows >= most:
                pending = sort(pa.concat_batches(waiting))
                final = pc.search_sorted(pending["first"], part.first).as_py()  # no later part begins lower
                if (pc.max(pending["last"][:final]).as_py() or 0) < part.first:
                    yield pending[:final]
                    pending = pending[final:]
                waiting, rows = [pending], pending.num_rows
                most = max(RANGES_AT_ONCE, 2 * rows)
            is_vague = part in self._table.vague
            ranges = ranges_of([part.first], [part.last]) if is_vague else self._reader.get_batch(self._slots[part])
            place = pa.scalar(None if is_vague else row, pa.int64())
            waiting.append(ranges.append_column("part", pa.repeat(place, ranges.num_rows)))
            rows += ranges.num_rows
        yield sort(pa.concat_batches(waiting))

    def _keep(
        self, file: _File, ranges_by_partition: RangesByPartition | None, kept: defaultdict[Part, list[pa.RecordBatch]]
    ) -> None:
        """Add the file's ranges to ``kept``. A part without rows in the file has empty ranges."""
        if ranges_by_partition is None:
            self.without_offsets += 1
            self._table.vague.update(file.parts)
            return
        for part in file.parts:
            ranges = ranges_by_partition.pop(part[:2], ranges_of([], []))
            kept[part].append(clipped(ranges, part.first, part.last))
            self._note_misplaced(file, outside(ranges, part.first, part.last))
        for ranges in ranges_by_partition.values():
            self._note_misplaced(file, ranges)

    def _note_misplaced(self, file: _File, wrong: pa.RecordBatch) -> None:
        if wrong.num_rows:
            first, last = (column[0].as_py() for column in wrong.columns)
            self.misplaced.append(Misplaced(self._table.path(file.key), first, last, count(wrong)))


def _by_batches(table: TableFiles) -> Iterator[_File]:
    by_batch = defaultdict[str, list[Part]](list)
    for part in table.files:
        by_batch[part.batch].append(part)
    for name in sorted(table.names, key=batch_in):
        part_in_name = named_part(name)
        parts = [part_in_name] if part_in_name else by_batch[batch_in(name)]
        yield from (_File(f"{folder}/{name}", size, parts) for folder, size in table.names[name])


class DeadLetter:
    def __init__(self, store: ObjectStore, root: str, workers: int) -> None:
        self._store = store
        self._workers = workers
        self._files = defaultdict[tuple[str, int], list[_File]](list)
        for stored in store.list(f"{dead_letter_root(root)}/"):
            if part := named_part(stored.key):
                self._files[part.topic, part.partition].append(_File(stored.key, stored.size, [part]))

    def count(self, tp: tuple[str, int], gaps: pa.RecordBatch) -> pa.Array:
        """Return the number of rejected records in each gap. Read only files that may contain these records."""

        def is_near(part: Part) -> bool:
            begun = pc.search_sorted(gaps["first"], part.last, side="right").as_py()
            return bool(pc.search_sorted(gaps["last"], part.first).as_py() < begun)

        near = (file for file in self._files[tp] if is_near(file.parts[0]))
        read = side_by_side(self._workers, partial(_read, self._store, "offset"), near)
        rejected = joined([ranges for _, by_partition in read for ranges in (by_partition or {}).values()])
        until_end = count_until(rejected, gaps["last"])
        return pc.subtract(until_end, count_until(rejected, pc.subtract(gaps["first"], 1)))


def _read(store: ObjectStore, column: str, file: _File) -> RangesByPartition | None:
    """Return the ranges of offsets in a file; ``None`` if a column that is needed is missing.

    A small file costs one request to the store, a large file three or more. A column with only one value is not read.
    """
    first, topics = file.parts[0], {part.topic for part in file.parts}
    unknown = [name for name, count in {_TOPIC: len(topics), _PARTITION: len(file.parts)}.items() if count > 1]
    kinds = {column: pa.int64(), **{name: _KINDS[name] for name in unknown}}
    by_partition = defaultdict[tuple[str, int], list[pa.RecordBatch]](list)
    try:
        with pq.ParquetFile(RangeFile(store, file.key, file.size)) as opened:
            schema = opened.schema_arrow
            if any([field.type for field in schema if field.name == name] != [kind] for name, kind in kinds.items()):
                return None
            for rows in opened.iter_batches(_ROWS_AT_ONCE, columns=[*kinds], use_threads=False):
                for values, offsets in _by_values(rows.drop_null(), column, unknown):
                    topic = topic_in_names(values[_TOPIC]) if _TOPIC in values else first.topic
                    tp = topic, values.get(_PARTITION, first.partition)
                    by_partition[tp].append(joined([ranges_of(offsets, offsets)]))
    except pa.ArrowException as error:
        raise FatalError(
            f"reading the column {column} of {store.uri}/{file.key}",
            f"it is not a valid Parquet file: {one_line(str(error))}",
            "Move it out of the folder, or restore it",
        ) from error
    return {tp: joined(ranges) for tp, ranges in by_partition.items()}


def _by_values(rows: pa.RecordBatch, column: str, names: Sequence[str]) -> Iterator[tuple[Mapping[str, Any], pa.Array]]:
    """Yield each combination of values in the columns ``names``, and the offsets of the rows with these values."""
    if not names:
        yield {}, rows[column]
        return
    table = pa.table(rows).group_by(names, use_threads=False).aggregate([(column, "list")])
    yield from zip(table.select(names).to_pylist(), (each.values for each in table[f"{column}_list"]), strict=True)
