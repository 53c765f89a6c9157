"""Finds the offsets of a topic-partition that several batches hold, and those that none holds."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Generic, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from app.commands.audit.ranges import RANGES, count, single
from app.model import TopicPartition

_T = TypeVar("_T")


class Listing(Generic[_T]):
    """The first findings of a kind, so many at the most, and how many there are in all."""

    def __init__(self, most: int) -> None:
        self.kept: list[_T] = []
        self.count = 0
        self._most = most

    def add(self, *findings: _T) -> None:
        """Count them, and keep them while there is room."""
        self.take(findings, len(findings))

    def take(self, findings: Iterable[_T], count: int) -> None:
        """The same with so many, of which only those are made that are kept."""
        self.count += count
        self.kept += islice(findings, max(0, self._most - len(self.kept)))


class Doubled(NamedTuple):
    """Offsets that two batches hold. A batch is a row in the table of the topic-partition's batches."""

    first: int
    last: int
    one: int
    other: int


class Missing(NamedTuple):
    """Offsets that no batch holds, and how many of them are in the dead letter."""

    first: int
    last: int
    dead_letters: int


@dataclass(slots=True)
class Findings:
    """The findings for a topic-partition.

    ``batches`` are those with files; ``first`` and ``last`` the lowest and highest offset that these name.
    """

    tp: TopicPartition
    batches: pa.Table
    first: int
    last: int
    doubled: Listing[Doubled]
    missing: Listing[Missing]
    doubled_offsets: int = 0
    missing_offsets: int = 0
    dead_letters: int = 0


@dataclass(slots=True)
class _Reached:
    """How far the ranges so far reach, and how far those parts that are doubled.

    ``open`` are the ranges (first, last, batch) that a later one may meet.
    """

    offset: int
    doubled: int
    open: list[tuple[int, int, int]] = field(default_factory=list)


CountRejected = Callable[[pa.RecordBatch], pa.Array]  # for each of the ranges, how many offsets are in the dead letter


def find(
    tp: TopicPartition, batches: pa.Table, held: Iterable[pa.RecordBatch], count_rejected: CountRejected, most: int
) -> Findings:
    """Compare the ranges of offsets that the batches of a topic-partition hold; keep so many findings of each kind.

    Batches and ranges are sorted by ``first``. ``held`` has the columns ``first``, ``last`` and ``batch``, the row in
    ``batches``. The ranges of one batch do not meet, and lie within the offsets that it names.
    """
    first, last = batches["first"][0].as_py(), pc.max(batches["last"]).as_py()
    findings = Findings(tp, batches, first, last, Listing(most), Listing(most))
    reached = _Reached(first - 1, first - 1)
    for portion in held:
        if portion.num_rows:
            _compare(portion, reached, findings, count_rejected)
    if reached.offset < last:
        _note_missing(single(reached.offset + 1, last), findings, count_rejected)
    return findings


def _compare(held: pa.RecordBatch, reached: _Reached, findings: Findings, count_rejected: CountRejected) -> None:
    first, last, _ = held.columns
    before = _reached_before(last, reached.offset)
    gaps = pa.record_batch([pc.add(before, 1), pc.subtract(first, 1)], schema=RANGES)
    _note_missing(gaps.filter(pc.less(before, gaps["last"])), findings, count_rejected)

    # As ranges are sorted, one of those before has all offsets from the first of this one to where they reach.
    doubled_last = pc.min_element_wise(last, before)
    counted_last = pc.max_element_wise(_reached_before(doubled_last, reached.doubled), pc.subtract(first, 1))
    findings.doubled_offsets += pc.sum(pc.max_element_wise(pc.subtract(doubled_last, counted_last), 0)).as_py()

    overlaps = pc.less_equal(first, before)
    is_overlapped = pa.concat_arrays([overlaps[1:], pa.array([True])])  # the last one by the next portion, perhaps
    _note_doubled(held.filter(pc.or_(overlaps, is_overlapped)), reached, findings)
    reached.offset = max(reached.offset, pc.max(last).as_py())
    reached.doubled = max(reached.doubled, pc.max(doubled_last).as_py())


def _reached_before(lasts: pa.Array, start: int) -> pa.Array:
    """For each range the highest offset of those before it, at least ``start``."""
    return pc.cumulative_max(pa.concat_arrays([pa.array([start], pa.int64()), lasts[:-1]]))


def _note_doubled(held: pa.RecordBatch, reached: _Reached, findings: Findings) -> None:
    for first, last, batch in zip(*(column.to_pylist() for column in held.columns), strict=True):
        reached.open = [each for each in reached.open if each[1] >= first]
        for _, other_last, other in reached.open:
            findings.doubled.add(Doubled(first, min(last, other_last), min(batch, other), max(batch, other)))
        reached.open.append((first, last, batch))


def _note_missing(gaps: pa.RecordBatch, findings: Findings, count_rejected: CountRejected) -> None:
    if not gaps.num_rows:
        return
    rejected = count_rejected(gaps)
    rows = zip(*gaps.columns, rejected, strict=True)
    findings.missing.take((Missing(*(value.as_py() for value in row)) for row in rows), gaps.num_rows)
    findings.missing_offsets += count(gaps)
    findings.dead_letters += pc.sum(rejected).as_py()
