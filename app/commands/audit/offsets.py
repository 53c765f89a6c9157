"""Audits ranges of offsets: finds those that are in a table's files twice, and those that are not there.

Batches come in the order of their first offsets, so all that lies below the next batch is final. Of a table of any size
only the batches are held that the next one may still share offsets with, and a few findings of each kind.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from app.commands.audit.offset_ranges import Frontier, Range, gaps, intersection, union
from app.model import BatchPart, TopicPartition

_T = TypeVar("_T")


class Listing(Generic[_T]):
    """The first findings of a kind, over which it iterates, and how many there are in all.

    Args:
        most: how many are kept.
    """

    def __init__(self, most: int) -> None:
        self.count = 0
        self._most = most
        self._kept: list[_T] = []

    def __iter__(self) -> Iterator[_T]:
        return iter(self._kept)

    @property
    def rest(self) -> int:
        """The number of findings that are not kept."""
        return self.count - len(self._kept)

    def add(self, finding: _T) -> None:
        """Count it, and keep it while there is room."""
        self.count += 1
        if len(self._kept) < self._most:
            self._kept.append(finding)


class HeldBatch(NamedTuple):
    """The offsets that the files of a batch hold; if only the names are known, all offsets in their ranges."""

    part: BatchPart
    files: int
    ranges: Sequence[Range]


class Doubled(NamedTuple):
    """Offsets that two batches hold."""

    offsets: Range
    one: BatchPart
    other: BatchPart


class Missing(NamedTuple):
    """Offsets that no batch holds, and how many of them are in the dead letter."""

    offsets: Range
    dead_letters: int


@dataclass(slots=True)
class Findings:
    """The findings for a topic-partition."""

    tp: TopicPartition
    offsets: Range
    doubled: Listing[Doubled]
    missing: Listing[Missing]
    files: int = 0
    batches: int = 0
    doubled_offsets: int = 0
    missing_offsets: int = 0
    dead_letters: int = 0


class DeadLetters:
    """Counts rejected records of a topic-partition; reads those files only that may hold any.

    Args:
        files: their offsets by name, in the order of the first ones, each with a function that reads what it holds.
    """

    def __init__(self, files: Iterator[tuple[Range, Callable[[], list[Range]]]]) -> None:
        self._files = files
        self._next = next(files, None)
        self._near: list[tuple[Range, list[Range]]] = []

    def count_in(self, offsets: Range) -> int:
        """How many offsets are in the dead letter; ask for lower ones first."""
        self._near = [entry for entry in self._near if entry[0].last >= offsets.first]
        while self._next is not None and self._next[0].first <= offsets.last:
            named, read = self._next
            if named.last >= offsets.first:
                self._near.append((named, read()))
            self._next = next(self._files, None)
        held = union(each for _, ranges in self._near for each in ranges)
        return sum(each.size for each in intersection(held, [offsets]))


class PartitionAudit:
    """The audit of one topic-partition.

    Args:
        first: its first batch; to be added like the others.
        dead_letters: what was rejected.
        most: how many findings of each kind are kept; the others are counted.
    """

    def __init__(self, first: BatchPart, dead_letters: DeadLetters, most: int) -> None:
        offsets = first.offsets
        self._findings = Findings(offsets.tp, Range(offsets.first, offsets.last), Listing(most), Listing(most))
        self._dead_letters = dead_letters
        self._held = Frontier()
        self._twice = Frontier()
        self._near: list[HeldBatch] = []
        self._final_below = offsets.first
        self._gap: Range | None = None

    def add(self, batch: HeldBatch) -> None:
        """Add the next batch by first offset; its ranges lie within the offsets of its name."""
        offsets = batch.part.offsets
        self._finish_below(offsets.first)
        self._near = [each for each in self._near if each.part.offsets.last >= offsets.first]
        for other in self._near:
            self._compare(other, batch)
        self._near.append(batch)
        self._held.add(batch.ranges)
        findings = self._findings
        findings.offsets = Range(findings.offsets.first, max(findings.offsets.last, offsets.last))
        findings.files += batch.files
        findings.batches += 1

    def finish(self) -> Findings:
        """Return the findings, after all batches are added."""
        self._finish_below(self._findings.offsets.last + 1)
        self._close_gap()
        return self._findings

    def _compare(self, one: HeldBatch, other: HeldBatch) -> None:
        common = intersection(one.ranges, other.ranges)
        self._twice.add(common)
        for each in common:
            self._findings.doubled.add(Doubled(each, one.part, other.part))

    def _finish_below(self, offset: int) -> None:
        self._findings.doubled_offsets += sum(each.size for each in self._twice.pop_below(offset))
        held = self._held.pop_below(offset)
        for gap in gaps(held, Range(self._final_below, offset - 1)):
            if self._gap is not None and self._gap.last + 1 == gap.first:
                self._gap = Range(self._gap.first, gap.last)
            else:
                self._close_gap()
                self._gap = gap
        self._final_below = offset

    def _close_gap(self) -> None:
        if self._gap is None:
            return
        missing = Missing(self._gap, self._dead_letters.count_in(self._gap))
        self._gap = None
        self._findings.missing_offsets += missing.offsets.size
        self._findings.dead_letters += missing.dead_letters
        self._findings.missing.add(missing)
