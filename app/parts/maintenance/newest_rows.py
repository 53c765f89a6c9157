"""Finds the newest rows of keys in Arrow tables, by the same rule as ``Merge`` in ``spark_merge.py``."""

from collections.abc import Sequence
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from app.config.parsers import ORDER_COLUMNS


def newest_rows(rows: pa.Table, key: Sequence[str]) -> pa.BooleanArray:
    """Return, for each row, whether the row stays. ``rows`` contains the key and ``ORDER_COLUMNS``."""
    partition, offset, at = ORDER_COLUMNS
    number, name_of_number = pa.arange(0, len(rows)), "_".join([*rows.column_names, "number"])
    has_order = reduce(pc.and_, (pc.is_valid(rows[name]) for name in (*key, *ORDER_COLUMNS))).combine_chunks()
    latest_first = [*((name, "ascending") for name in key), *((name, "descending") for name in (at, partition, offset))]
    ordered = rows.append_column(name_of_number, number).filter(has_order).sort_by(latest_first).combine_chunks()
    if not len(ordered):
        return pc.invert(has_order)
    changes = reduce(pc.or_, (pc.not_equal(ordered[name][1:], ordered[name][:-1]) for name in key))
    is_first = pa.chunked_array([[True], *changes.chunks])
    group = pc.subtract(pc.cumulative_sum(is_first.cast(pa.int64())), 1)
    in_latest = pc.equal(ordered[partition], ordered[partition].take(pc.indices_nonzero(is_first)).take(group))
    ordered, group = ordered.filter(in_latest), group.filter(in_latest)
    # The numbers of a later group exceed those of all former groups, so the maximum begins again with each group.
    rank = pc.add(pc.multiply(group, len(rows) + 1), pc.rank(ordered[offset], tiebreaker="dense").cast(pa.int64()))
    newest = ordered[name_of_number].filter(pc.equal(rank, pc.cumulative_max(rank)))
    return pc.or_(pc.is_in(number, newest), pc.invert(has_order))
