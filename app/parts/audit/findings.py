"""Finds duplicate and missing offsets of a topic-partition.

Ranges of offsets are Arrow record batches with the int64 columns ``first`` and ``last``, which are part of the range.
Ranges are sorted, with a gap of at least one offset between two ranges.
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
    """A range of offsets that two batches contain."""

    first: int
    last: int
    batches: Sequence[str]


@dataclass(frozen=True, slots=True)
class Missing:
    """A range of offsets that no batch contains. ``dead_letters`` is the number of these offsets in the dead letter."""

    first: int
    last: int
    dead_letters: int


@dataclass(frozen=True, slots=True)
class Misplaced:
    """A file with offsets outside its batch: the first range of these offsets, and the number of these offsets."""

    file: str
    first: int
    last: int
    offsets: int


@dataclass(slots=True)
class Findings:
    """The findings for a topic-partition. ``doubled`` and ``missing`` contain only the first findings.

    ``first`` and ``last`` are the lowest and highest offset in the names of batches. ``unchecked_offsets`` is the
    number of offsets that may be duplicates.
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


CountRejected = Callable[[pa.RecordBatch], pa.Array]  # returns, for each range, the number of dead letters


def find(
    table: TableFiles,
    parts: Sequence[Part],
    portions: Iterable[pa.RecordBatch],
    count_rejected: CountRejected,
    most: int,
) -> Findings:
    """Compare the offsets of the parts of one topic-partition. Keep at most ``most`` findings of each kind.

    Each portion is a record batch of ranges with the column ``part``, which is the index in ``parts``. ``part`` is null
    if the offsets in the part's files are unknown. Parts and ranges are sorted by ``first``. The ranges of one part do
    not touch, and are within the part's offsets. A portion begins after all offsets of the previous portion.
    """
    last = max(part.last for part in parts)
    findings = Findings(*parts[0][:3], last, sum(map(table.files.__getitem__, parts)), len(parts))

    def note_missing(gaps: pa.RecordBatch) -> None:
        if gaps.num_rows:
            rejected = count_rejected(gaps)
            kept = (column[: most - len(findings.missing)].to_pylist() for column in (*gaps.columns, rejected))
            findings.missing += map(Missing, *kept)
            findings.missing_count += gaps.num_rows
            findings.missing_offsets += count(gaps)
            findings.missing_dead_letters += pc.sum(rejected).as_py()

    reached = findings.first - 1
    for ranges in portions:
        exact = ranges.drop_null()
        _note_doubled(parts, exact, findings, most)
        findings.unchecked_offsets += count(_overlaps(ranges)) - count(_overlaps(exact))
        first, last = joined([ranges.select(["first", "last"])]).columns
        before = pa.concat_arrays([pa.array([reached], pa.int64()), last])
        note_missing(ranges_of(pc.add(before[:-1], 1), pc.subtract(first, 1)))
        reached = before[-1].as_py()
    note_missing(ranges_of([reached + 1], [findings.last]))
    return findings


def _overlaps(ranges: pa.RecordBatch) -> pa.RecordBatch:
    first, last, _ = ranges.columns
    # Among the earlier ranges, the range with the highest end overlaps with all offsets up to that end.
    return joined([ranges_of(first[1:], pc.min_element_wise(last[1:], pc.cumulative_max(last)[:-1]))])


def _note_doubled(parts: Sequence[Part], ranges: pa.RecordBatch, findings: Findings, most: int) -> None:
    if not (doubled := count(_overlaps(ranges))):
        return
    findings.doubled_offsets += doubled
    first, last, part = ranges.columns
    # A range overlaps with each later range that begins before the end of the earlier range.
    ends = pc.search_sorted(first, last, side="right").cast(pa.int64())
    others = pc.subtract(ends, pa.arange(1, len(ends) + 1))
    findings.doubled_count += pc.sum(others).as_py()
    rows = pc.indices_nonzero(others)[:most].to_pylist()
    pairs = ((row, other) for row in rows for other in range(row + 1, ends[row].as_py()))
    for pair in islice(pairs, most - len(findings.doubled)):
        both = [parts[row] for row in sorted(part[each].as_py() for each in pair)]
        until = min(last[row].as_py() for row in pair)
        findings.doubled.append(Doubled(first[pair[1]].as_py(), until, [each.batch for each in both]))


def ranges_of(first: pa.Array | Sequence[int], last: pa.Array | Sequence[int]) -> pa.RecordBatch:
    """Return the ranges with these first and last offsets. Omit empty ranges. Do not sort or join the ranges."""
    ranges = pa.record_batch([first, last], schema=RANGES)
    return ranges.filter(pc.less_equal(ranges["first"], ranges["last"]))


def joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Sort these ranges, and join ranges that touch or overlap."""
    first, last = sort(pa.concat_batches([ranges_of([], []), *batches])).columns
    reached = pc.cumulative_max(last)
    begins = pc.greater(pc.subtract(first[1:], 1), reached[:-1])
    end = pa.array([True] * min(1, len(first)), pa.bool_())
    columns = [first.filter(pa.concat_arrays([end, begins])), reached.filter(pa.concat_arrays([begins, end]))]
    return pa.record_batch(columns, schema=RANGES)


def sort(ranges: pa.RecordBatch) -> pa.RecordBatch:
    """Sort ranges by ``first``. Sorted ranges are returned without a copy."""
    first = ranges["first"]
    is_sorted = pc.all(pc.less_equal(first[:-1], first[1:]), min_count=0).as_py()
    return ranges if is_sorted else ranges.sort_by("first")


def clipped(ranges: pa.RecordBatch, first: int, last: int) -> pa.RecordBatch:
    """Return the ranges without offsets below ``first`` and above ``last``."""
    return ranges_of(pc.max_element_wise(ranges["first"], first), pc.min_element_wise(ranges["last"], last))


def outside(ranges: pa.RecordBatch, first: int, last: int) -> pa.RecordBatch:
    """Return the ranges without the offsets from ``first`` to ``last``."""
    above = [clipped(ranges, last + 1, _MAX)] if last < _MAX else []
    return pa.concat_batches([clipped(ranges, -_MAX, first - 1), *above])


def count(ranges: pa.RecordBatch) -> int:
    return int(pc.sum(_sizes(ranges), min_count=0).as_py())


def count_until(ranges: pa.RecordBatch, offsets: pa.Array) -> pa.Array:
    """Return, for each of ``offsets``, the number of offsets in the ranges that are lower or equal."""
    begun = pc.search_sorted(ranges["first"], offsets, side="right")
    in_begun = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(_sizes(ranges))]).take(begun)
    last_begun = pa.concat_arrays([pa.array([-1], pa.int64()), ranges["last"]]).take(begun)
    return pc.subtract(in_begun, pc.max_element_wise(pc.subtract(last_begun, offsets), 0))


def _sizes(ranges: pa.RecordBatch) -> pa.Array:
    return pc.add(pc.subtract(ranges["last"], ranges["first"]), 1)
