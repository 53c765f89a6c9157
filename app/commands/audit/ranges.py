"""Ranges of offsets, as Arrow record batches.

They have the columns ``first`` and ``last`` (int64, both included). They are sorted, and between two of them there is
a gap of at least one offset.
"""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

RANGES = pa.schema([("first", pa.int64()), ("last", pa.int64())])


def ranges_of(offsets: pa.Array) -> pa.RecordBatch:
    """The ranges of an int64 array in any order, without nulls; an offset may be there several times."""
    return joined([pa.record_batch([offsets, offsets], schema=RANGES)])


def joined(some: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Join ranges that meet or overlap; they may be in any order."""
    ranges = sort(pa.concat_batches([pa.record_batch([[], []], schema=RANGES), *some]))
    if not ranges.num_rows:
        return ranges
    first, last = ranges.columns
    begins = pc.greater(pc.subtract(first[1:], 1), pc.cumulative_max(last)[:-1])
    is_first = pa.concat_arrays([pa.array([True]), begins])
    is_last = pa.concat_arrays([begins, pa.array([True])])
    return pa.record_batch([first.filter(is_first), pc.cumulative_max(last).filter(is_last)], schema=RANGES)


def sort(ranges: pa.RecordBatch) -> pa.RecordBatch:
    """Sort by ``first``; sorted ones, which most are, take neither time nor memory."""
    first = ranges["first"]
    is_sorted = pc.all(pc.less_equal(first[:-1], first[1:]), min_count=0).as_py()
    return ranges if is_sorted else ranges.sort_by("first")


def single(first: int, last: int) -> pa.RecordBatch:
    """One range."""
    return pa.record_batch([[first], [last]], schema=RANGES)


def clipped(ranges: pa.RecordBatch, first: int, last: int) -> pa.RecordBatch:
    """The parts of the ranges from ``first`` to ``last``."""
    columns = [pc.max_element_wise(ranges["first"], first), pc.min_element_wise(ranges["last"], last)]
    return pa.record_batch(columns, schema=RANGES).filter(pc.less_equal(*columns))


def outside(ranges: pa.RecordBatch, first: int, last: int) -> pa.RecordBatch:
    """The parts of the ranges below ``first`` and above ``last``."""
    below = ranges.filter(pc.less(ranges["first"], first))
    above = ranges.filter(pc.greater(ranges["last"], last))
    columns = [
        [below["first"], pc.min_element_wise(below["last"], first - 1)],
        [pc.max_element_wise(above["first"], last + 1), above["last"]],
    ]
    return pa.concat_batches([pa.record_batch(each, schema=RANGES) for each in columns])


def count(ranges: pa.RecordBatch) -> int:
    """How many offsets are in the ranges."""
    return int(pc.sum(_sizes(ranges), min_count=0).as_py())


def count_until(ranges: pa.RecordBatch, offsets: pa.Array) -> pa.Array:
    """For each of the offsets, how many in the ranges are not above it."""
    begun = pc.search_sorted(ranges["first"], offsets, side="right")
    in_begun = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(_sizes(ranges))]).take(begun)
    last_begun = pa.concat_arrays([pa.array([-1], pa.int64()), ranges["last"]]).take(begun)
    return pc.subtract(in_begun, pc.max_element_wise(pc.subtract(last_begun, offsets), 0))


def _sizes(ranges: pa.RecordBatch) -> pa.Array:
    return pc.add(pc.subtract(ranges["last"], ranges["first"]), 1)
