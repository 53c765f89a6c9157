"""Computes with ranges of offsets: both ends included, sorted, with a gap of at least one offset between two."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc


class Range(NamedTuple):
    """Offsets ``first`` to ``last``, both included."""

    first: int
    last: int

    @property
    def size(self) -> int:
        return self.last - self.first + 1


def union(ranges: Iterable[Range]) -> list[Range]:
    """Join ranges that meet or overlap; the input may be in any order."""
    joined: list[Range] = []
    for each in sorted(ranges):
        if joined and each.first <= joined[-1].last + 1:
            joined[-1] = Range(joined[-1].first, max(joined[-1].last, each.last))
        else:
            joined.append(each)
    return joined


def intersection(ones: Sequence[Range], others: Sequence[Range]) -> list[Range]:
    """Return the ranges that lie in both."""
    common: list[Range] = []
    one = other = 0
    while one < len(ones) and other < len(others):
        first = max(ones[one].first, others[other].first)
        last = min(ones[one].last, others[other].last)
        if first <= last:
            common.append(Range(first, last))
        if ones[one].last < others[other].last:
            one += 1
        else:
            other += 1
    return common


def gaps(ranges: Sequence[Range], within: Range) -> list[Range]:
    """Return the parts of ``within`` that lie in none of the ranges."""
    missing: list[Range] = []
    begin = within.first
    for each in ranges:
        if each.first > within.last:
            break
        if begin < each.first:
            missing.append(Range(begin, each.first - 1))
        begin = max(begin, each.last + 1)
    if begin <= within.last:
        missing.append(Range(begin, within.last))
    return missing


class Frontier:
    """A union that grows at its upper end; ``pop_below`` removes its lower part."""

    def __init__(self) -> None:
        self._ranges: list[Range] = []

    def add(self, more: Sequence[Range]) -> None:
        """Make it the union with ``more``; quick where that lies near the end."""
        near: list[Range] = []
        while more and self._ranges and self._ranges[-1].last + 1 >= more[0].first:
            near.append(self._ranges.pop())
        self._ranges.extend(union([*near, *more]))

    def pop_below(self, offset: int) -> list[Range]:
        """Remove and return all that is smaller than ``offset``."""
        below = [Range(each.first, min(each.last, offset - 1)) for each in self._ranges if each.first < offset]
        self._ranges = [Range(max(each.first, offset), each.last) for each in self._ranges if each.last >= offset]
        return below


def ranges_of(offsets: pa.Array) -> list[Range]:
    """The ranges of an int64 array in any order, without nulls; an offset may be there several times."""
    if not len(offsets):
        return []
    ordered = offsets.take(pc.sort_indices(offsets))
    ends = pc.indices_nonzero(pc.greater(pc.subtract(ordered[1:], ordered[:-1]), 1))
    firsts = [ordered[0].as_py(), *ordered.take(pc.add(ends, 1)).to_pylist()]
    lasts = [*ordered.take(ends).to_pylist(), ordered[-1].as_py()]
    return list(map(Range, firsts, lasts))
