"""Finds the offsets of a topic-partition that several batches hold, and those that none holds, by ranges of offsets.

Ranges are Arrow record batches with the columns ``first`` and ``last`` (int64, both included). They are sorted, and
between two of them there is a gap of at least one offset.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from app.model import TopicPartition
from app.parts.audit.files import TableFiles
from app.parts.maintenance.batch_metadata import Part

RANGES: Final = pa.schema([("first", pa.int64()), ("last", pa.int64())])
_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Doubled:
    """Offsets that two batches hold."""

    first: int
    last: int
    batches: Sequence[str]


@dataclass(frozen=True, slots=True)
class Missing:
    """Offsets that no batch holds, and how many of them are in the dead letter."""

    first: int
    last: int
    dead_letters: int


@dataclass(frozen=True, slots=True)
class Misplaced:
    """A file with offsets outside those of its batch: the first range of them, and how many there are in all."""

    file: str
    first: int
    last: int
    offsets: int


@dataclass(slots=True)
class Findings:
    """The findings for a topic-partition, of which the first are listed.

    ``first`` and ``last`` are the lowest and highest offset that its batches name. Of ``unchecked_offsets`` nobody can
    say whether they are doubled.
    """

    topic: str
    partition: int
    first: int
    last: int
    files: int
    batches: int
    doubled: list[Doubled] = field(default_factory=list)
    doubled_count: int = 0
    doubled_offsets: int = 0
    unchecked_offsets: int = 0
    missing: list[Missing] = field(default_factory=list)
    missing_count: int = 0
    missing_offsets: int = 0
    missing_dead_letters: int = 0

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


CountRejected = Callable[[pa.RecordBatch], pa.Array]  # for each of the ranges, how many offsets are in the dead letter


def find(
    table: TableFiles,
    parts: Sequence[Part],
    portions: Iterable[pa.RecordBatch],
    count_rejected: CountRejected,
    most: int,
) -> Findings:
    """Compare the ranges of offsets that the parts of a topic-partition hold; keep so many findings of each kind.

    Parts and ranges are sorted by ``first``. The portions have the columns ``first``, ``last`` and ``part``, the row
    in ``parts``; that is null where the part's files do not say which offsets they hold. The ranges of one part do not
    meet, and lie within the offsets that it names. Each portion begins behind all offsets of the one before it.
    """
    last = max(part.last for part in parts)
    found = Findings(*parts[0][:3], last, sum(map(table.files.__getitem__, parts)), len(parts))

    def note_missing(gaps: pa.RecordBatch) -> None:
        if gaps.num_rows:
            rejected = count_rejected(gaps)
            kept = (column[: most - len(found.missing)].to_pylist() for column in (*gaps.columns, rejected))
            found.missing += map(Missing, *kept)
            found.missing_count += gaps.num_rows
            found.missing_offsets += count(gaps)
            found.missing_dead_letters += pc.sum(rejected).as_py()

    reached = found.first - 1
    for held in portions:
        exact = held.drop_null()
        _note_doubled(parts, exact, found, most)
        found.unchecked_offsets += count(_twice(held)) - count(_twice(exact))
        first, last = joined([held.select(["first", "last"])]).columns
        before = pa.concat_arrays([pa.array([reached], pa.int64()), last])
        note_missing(ranges_of(pc.add(before[:-1], 1), pc.subtract(first, 1)))
        reached = before[-1].as_py()
    note_missing(ranges_of([reached + 1], [found.last]))
    return found


def _twice(held: pa.RecordBatch) -> pa.RecordBatch:
    first, last, _ = held.columns
    # One of the former ranges reaches furthest: it has all offsets from the first of this one to there.
    return joined([ranges_of(first[1:], pc.min_element_wise(last[1:], pc.cumulative_max(last)[:-1]))])


def _note_doubled(parts: Sequence[Part], held: pa.RecordBatch, found: Findings, most: int) -> None:
    if not (doubled := count(_twice(held))):
        return
    found.doubled_offsets += doubled
    first, last, part = held.columns
    # A range meets all those after it that begin before it ends.
    ends = pc.search_sorted(first, last, side="right").cast(pa.int64())
    others = pc.subtract(ends, pa.arange(1, len(ends) + 1))
    found.doubled_count += pc.sum(others).as_py()
    rows = pc.indices_nonzero(others)[:most].to_pylist()
    pairs = ((row, other) for row in rows for other in range(row + 1, ends[row].as_py()))
    for pair in islice(pairs, most - len(found.doubled)):
        both = [parts[row] for row in sorted(part[each].as_py() for each in pair)]
        until = min(last[row].as_py() for row in pair)
        found.doubled.append(Doubled(first[pair[1]].as_py(), until, [each.batch for each in both]))


def ranges_of(first: pa.Array | Sequence[int], last: pa.Array | Sequence[int]) -> pa.RecordBatch:
    """Those of which each begins and ends there, without empty ones; they are neither sorted nor joined."""
    found = pa.record_batch([first, last], schema=RANGES)
    return found.filter(pc.less_equal(found["first"], found["last"]))


def joined(some: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Join ranges that meet or overlap; they may be in any order."""
    first, last = sort(pa.concat_batches([ranges_of([], []), *some])).columns
    reached = pc.cumulative_max(last)
    begins = pc.greater(pc.subtract(first[1:], 1), reached[:-1])
    end = pa.array([True] * min(1, len(first)), pa.bool_())
    columns = [first.filter(pa.concat_arrays([end, begins])), reached.filter(pa.concat_arrays([begins, end]))]
    return pa.record_batch(columns, schema=RANGES)


def sort(some: pa.RecordBatch) -> pa.RecordBatch:
    """Sort by ``first``; sorted ones, which most are, take neither time nor memory."""
    first = some["first"]
    is_sorted = pc.all(pc.less_equal(first[:-1], first[1:]), min_count=0).as_py()
    return some if is_sorted else some.sort_by("first")


def clipped(some: pa.RecordBatch, first: int, last: int) -> pa.RecordBatch:
    """The parts of the ranges from ``first`` to ``last``."""
    return ranges_of(pc.max_element_wise(some["first"], first), pc.min_element_wise(some["last"], last))


def outside(some: pa.RecordBatch, first: int, last: int) -> pa.RecordBatch:
    """The parts of the ranges below ``first`` and above ``last``."""
    above = [clipped(some, last + 1, _MAX)] if last < _MAX else []
    return pa.concat_batches([clipped(some, -_MAX, first - 1), *above])


def count(some: pa.RecordBatch) -> int:
    return int(pc.sum(_sizes(some), min_count=0).as_py())


def count_until(some: pa.RecordBatch, offsets: pa.Array) -> pa.Array:
    """For each of the offsets, how many in the ranges are not above it."""
    begun = pc.search_sorted(some["first"], offsets, side="right")
    in_begun = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(_sizes(some))]).take(begun)
    last_begun = pa.concat_arrays([pa.array([-1], pa.int64()), some["last"]]).take(begun)
    return pc.subtract(in_begun, pc.max_element_wise(pc.subtract(last_begun, offsets), 0))


def _sizes(some: pa.RecordBatch) -> pa.Array:
    return pc.add(pc.subtract(some["last"], some["first"]), 1)
