"""Ranges of offsets against plain sets, and the audit of a topic-partition against a count of every offset."""

from collections import Counter
from collections.abc import Iterable
from functools import partial
from itertools import combinations, pairwise

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import example, given
from hypothesis import strategies as st

from app.parts.audit.files import TableFiles
from app.parts.audit.findings import RANGES, clipped, count, count_until, find, joined, outside
from app.parts.maintenance.batch_metadata import Part

MOST = 40  # small enough for ranges to meet, overlap and contain each other
OFFSETS = st.integers(0, MOST)
RANGE = st.tuples(OFFSETS, OFFSETS).map(lambda pair: (min(pair), max(pair)))
RANGES_OF_A_BATCH = st.lists(RANGE, max_size=6)

Pairs = list[tuple[int, int]]


def batch_of(pairs: Iterable[tuple[int, int]]) -> pa.RecordBatch:
    listed = list(pairs)
    return pa.record_batch([[first for first, _ in listed], [last for _, last in listed]], schema=RANGES)


def pairs_of(ranges: pa.RecordBatch) -> Pairs:
    return list(zip(*(column.to_pylist() for column in ranges.columns), strict=True))


def offsets_in(pairs: Iterable[tuple[int, int]]) -> set[int]:
    return {offset for first, last in pairs for offset in range(first, last + 1)}


def assert_canonical(pairs: Pairs) -> None:
    """Sorted, none empty, none meets the next."""
    assert all(first <= last for first, last in pairs)
    assert all(one[1] + 1 < other[0] for one, other in pairwise(pairs))


@given(RANGES_OF_A_BATCH, RANGE, OFFSETS)
def test_ranges_hold_what_sets_of_their_offsets_hold(drawn: Pairs, within: tuple[int, int], offset: int) -> None:
    ranges, held = joined([batch_of([each]) for each in drawn]), offsets_in(drawn)
    assert_canonical(pairs_of(ranges))
    assert offsets_in(pairs_of(ranges)) == held
    assert count(ranges) == len(held)
    assert count_until(ranges, pa.array([offset])).to_pylist() == [len([each for each in held if each <= offset])]
    assert_canonical(pairs_of(clipped(ranges, *within)))
    assert offsets_in(pairs_of(clipped(ranges, *within))) == held & offsets_in([within])
    assert offsets_in(pairs_of(outside(ranges, *within))) == held - offsets_in([within])


def count_rejected(rejected: set[int], gaps: pa.RecordBatch) -> pa.Array:
    return pa.array([len(rejected & offsets_in([gap])) for gap in pairs_of(gaps)], pa.int64())


@given(
    st.lists(st.tuples(RANGE, RANGES_OF_A_BATCH, st.booleans()), min_size=1, max_size=8),
    st.sets(OFFSETS),
    st.integers(0, MOST),
    st.integers(0, 3),
)
@example([((0, 5), [(0, 5)], False), ((5, 9), [(5, 9)], False)], set(), 5, 1)
def test_an_audit_counts_each_offset_as_a_plain_count_does(
    drawn: list[tuple[tuple[int, int], Pairs, bool]], rejected: set[int], cut: int, most: int
) -> None:
    """``cut`` is where one portion of the ranges ends and the next begins, unless a range meets an earlier one.

    Some batches do not say their offsets: whatever overlaps with them is unchecked.
    """
    ordered = sorted(drawn)
    parts = [Part("readings", 3, first, last, "a", number) for number, ((first, last), *_) in enumerate(ordered)]
    table = TableFiles("data", files=Counter(parts))
    held = [clipped(joined([batch_of([named] if vague else ranges)]), *named) for named, ranges, vague in ordered]
    exact = [each for each, (*_, vague) in zip(held, ordered, strict=True) if not vague]
    numbered = [
        each.append_column("part", pa.array([None if ordered[row][2] else row] * each.num_rows, pa.int64()))
        for row, each in enumerate(held)
    ]
    known = pa.concat_batches(numbered).sort_by("first")
    middle = pc.search_sorted(known["first"], cut).as_py()
    is_clean = max(known["last"][:middle].to_pylist(), default=-1) < cut
    portions = [known[:middle], known[middle:]] if is_clean else [known]
    findings = find(table, parts, portions, partial(count_rejected, rejected), most=1_000)
    assert (findings.first, findings.last) == (ordered[0][0][0], max(last for (_, last), *_ in ordered))
    assert (findings.files, findings.batches) == (len(parts), len(parts))

    counted = Counter(offset for each in held for offset in offsets_in(pairs_of(each)))
    missing = offsets_in([(findings.first, findings.last)]) - set(counted)
    shown = [(each.first, each.last) for each in findings.missing]
    doubled = Counter(offset for each in exact for offset in offsets_in(pairs_of(each)))
    assert findings.doubled_offsets == sum(times > 1 for times in doubled.values())
    assert findings.unchecked_offsets == sum(times > 1 and doubled[offset] < 2 for offset, times in counted.items())
    assert (findings.missing_offsets, findings.missing_count) == (len(missing), len(shown))
    assert offsets_in(shown) == missing
    assert_canonical(shown)
    assert findings.missing_dead_letters == len(missing & rejected)
    assert [each.dead_letters for each in findings.missing] == [len(offsets_in([gap]) & rejected) for gap in shown]
    pairs: dict[tuple[str, ...], set[int]] = {}
    for each in findings.doubled:
        pairs.setdefault(tuple(each.batches), set()).update(range(each.first, each.last + 1))
    assert findings.doubled_count == len(findings.doubled)
    assert pairs == {
        (f"a-{one}", f"a-{other}"): common
        for one, other in combinations([row for row, (*_, vague) in enumerate(ordered) if not vague], 2)
        if (common := offsets_in(pairs_of(held[one])) & offsets_in(pairs_of(held[other])))
    }

    fewer = find(table, parts, portions, partial(count_rejected, rejected), most)
    assert (fewer.missing_count, fewer.doubled_count) == (findings.missing_count, findings.doubled_count)
    assert fewer.missing == findings.missing[:most]
    assert fewer.doubled == findings.doubled[:most]
