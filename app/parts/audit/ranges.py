"""Ranges of offsets, as Arrow record batches.

They have the columns ``first`` and ``last`` (int64, both included). They are sorted, and between two of them there is
a gap of at least one offset.
"""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

RANGES: Final = pa.schema([("first", pa.int64()), ("last", pa.int64())])
_MAX: Final = 2**63 - 1


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
