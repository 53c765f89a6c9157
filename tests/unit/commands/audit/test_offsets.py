"""Arithmetic of ranges against plain sets, and the audit of batches against a count of every offset."""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import combinations, pairwise

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from app.commands.audit.offset_ranges import Frontier, Range, gaps, intersection, ranges_of, union
from app.commands.audit.offsets import DeadLetters, HeldBatch, PartitionAudit
from app.model import BatchPart, TopicPartition
from tests.support.batches import part

TP = TopicPartition("readings", 3)
MOST = 40  # small enough for ranges to meet, overlap and contain each other
OFFSETS = st.integers(0, MOST)
RANGE = st.tuples(OFFSETS, OFFSETS).map(lambda pair: Range(min(pair), max(pair)))
RANGES = st.lists(RANGE, max_size=6)


def offsets_in(ranges: Iterable[Range]) -> set[int]:
    return {offset for each in ranges for offset in range(each.first, each.last + 1)}


def assert_canonical(ranges: Sequence[Range]) -> None:
    """Sorted, none empty, none meets the next."""
    assert all(each.first <= each.last for each in ranges)
    assert all(one.last + 1 < other.first for one, other in pairwise(ranges))


@given(RANGES)
def test_a_union_holds_each_offset_once(ranges: list[Range]) -> None:
    joined = union(ranges)
    assert_canonical(joined)
    assert offsets_in(joined) == offsets_in(ranges)
    assert sum(each.size for each in joined) == len(offsets_in(ranges))


@given(RANGES, RANGES)
def test_an_intersection_holds_what_both_hold(ones: list[Range], others: list[Range]) -> None:
    common = intersection(union(ones), union(others))
    assert_canonical(common)
    assert offsets_in(common) == offsets_in(ones) & offsets_in(others)


@given(RANGES, RANGE)
def test_gaps_hold_the_rest(ranges: list[Range], within: Range) -> None:
    missing = gaps(union(ranges), within)
    assert_canonical(missing)
    assert offsets_in(missing) == offsets_in([within]) - offsets_in(ranges)


@given(st.lists(OFFSETS), st.integers(0, 2**62))
@example([], 0)
@example([0], 2**63 - 1)
def test_ranges_of_an_array_are_those_of_its_offsets(offsets: list[int], base: int) -> None:
    found = ranges_of(pa.array([base + offset for offset in offsets], pa.int64()))
    assert_canonical(found)
    assert found == union(Range(base + offset, base + offset) for offset in offsets)


@given(st.lists(st.tuples(RANGES, OFFSETS)))
def test_a_frontier_gives_out_each_offset_once(steps: list[tuple[list[Range], int]]) -> None:
    frontier = Frontier()
    added: set[int] = set()
    given_out: list[Range] = []
    below = 0
    for ranges, wanted in steps:
        more = intersection(union(ranges), [Range(below, MOST)])  # nothing comes below what was given out
        frontier.add(more)
        added |= offsets_in(more)
        below = max(below, wanted)
        given_out += frontier.pop_below(below)
        assert offsets_in(given_out) == {offset for offset in added if offset < below}
    given_out += frontier.pop_below(MOST + 1)
    assert offsets_in(given_out) == added
    assert sum(each.size for each in given_out) == len(added)


BATCHES = st.lists(st.tuples(RANGE, RANGES), min_size=1, max_size=8)


def held_batches(drawn: list[tuple[Range, list[Range]]]) -> list[HeldBatch]:
    """The batches in the order of their first offsets; each holds some of the offsets of its name."""
    ordered = sorted(drawn, key=lambda entry: entry[0])
    return [
        HeldBatch(part(TP, named.first, named.last, number=number), 2, intersection(union(ranges), [named]))
        for number, (named, ranges) in enumerate(ordered)
    ]


def dead_letters(files: Sequence[Range], asked: list[Range]) -> DeadLetters:
    """Files that hold all offsets of their names; what is read is noted in ``asked``."""

    def read(file: Range) -> list[Range]:
        asked.append(file)
        return [file]

    return DeadLetters((file, partial(read, file)) for file in sorted(files))


@given(BATCHES, RANGES)
def test_an_audit_counts_each_offset_as_a_plain_count_does(
    drawn: list[tuple[Range, list[Range]]], rejected: list[Range]
) -> None:
    batches = held_batches(drawn)
    asked: list[Range] = []
    audit = PartitionAudit(batches[0].part, dead_letters(rejected, asked), most=1_000)
    for batch in batches:
        audit.add(batch)
    findings = audit.finish()

    counted = Counter(offset for batch in batches for offset in offsets_in(batch.ranges))
    bounds = Range(batches[0].part.offsets.first, max(batch.part.offsets.last for batch in batches))
    missing = offsets_in([bounds]) - set(counted)
    assert (findings.offsets, findings.files, findings.batches) == (bounds, 2 * len(batches), len(batches))
    assert findings.doubled_offsets == sum(count > 1 for count in counted.values())
    assert findings.missing_offsets == len(missing)
    assert offsets_in(each.offsets for each in findings.missing) == missing
    assert_canonical([each.offsets for each in findings.missing])
    assert findings.dead_letters == len(missing & offsets_in(rejected))
    for each in findings.missing:
        assert each.dead_letters == len(offsets_in([each.offsets]) & offsets_in(rejected))
    pairs: dict[tuple[int, int], set[int]] = {}
    for doubled in findings.doubled:
        pairs.setdefault((doubled.one.number, doubled.other.number), set()).update(offsets_in([doubled.offsets]))
    assert pairs == {
        (one.part.number, other.part.number): common
        for one, other in combinations(batches, 2)
        if (common := offsets_in(one.ranges) & offsets_in(other.ranges))
    }
    assert all(missing & offsets_in([file]) for file in asked), "a file was read that has nothing to tell"
    assert len(asked) == len([file for file in rejected if missing & offsets_in([file])])


def test_only_so_many_findings_are_kept_and_all_are_counted() -> None:
    parts: list[BatchPart] = [part(TP, 10 * number, 10 * number + 4, number=number) for number in range(100)]
    audit = PartitionAudit(parts[0], dead_letters([], []), most=3)
    for each in parts:
        for _ in range(2):
            audit.add(HeldBatch(each, 1, [Range(each.offsets.first, each.offsets.last)]))
    findings = audit.finish()
    assert (findings.missing.count, findings.missing_offsets) == (99, 99 * 5)
    assert [each.offsets for each in findings.missing] == [Range(5, 9), Range(15, 19), Range(25, 29)]
    assert (findings.doubled.count, findings.doubled_offsets) == (100, 500)
    assert [each.offsets for each in findings.doubled] == [Range(0, 4), Range(10, 14), Range(20, 24)]
