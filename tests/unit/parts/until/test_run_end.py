"""What is of a run that ends, where the last of its records is compacted away while it runs, or cannot be read."""

from types import SimpleNamespace
from typing import Any

import pytest
from quixstreams.models.serializers import IgnoreMessage

from app.errors import RetryableError
from app.model import TopicPartition
from app.parts.until.run_end import RunEnd, readable_ends

TP, ADDED = TopicPartition("readings", 0), TopicPartition("readings", 1)


def messages(*offsets: int, partition: int = 0) -> list[Any]:
    return [
        SimpleNamespace(topic=lambda: "readings", partition=lambda: partition, offset=lambda offset=offset: offset)
        for offset in offsets
    ]


@pytest.mark.parametrize(
    ("batches", "in_lake"),
    [([[4, 8], [12]], 9), ([[4, 8, 12]], 9), ([[12, 13]], 0)],
    ids=["alone", "with those before", "with none before"],
)
def test_the_first_record_behind_the_end_tells_that_no_other_comes_before_it(
    batches: list[list[int]], in_lake: int
) -> None:
    run_end = RunEnd({TP: 10})
    assert run_end.incomplete([TP], {TP: in_lake}) == {TP}
    taken = [each.offset() for batch in batches for each in run_end.before(TP, messages(*batch))]
    assert taken == [offset for batch in batches for offset in batch if offset < 10]
    assert run_end.incomplete([TP], {TP: in_lake}) == set()


def test_what_an_earlier_assignment_read_is_not_waited_for_once_it_is_compacted_away() -> None:
    """Another member was assigned the partition meanwhile, and has written a part of it."""
    run_end = RunEnd({TP: 10})
    run_end.before(TP, messages(4, 8), 0)
    assert run_end.before(TP, messages(12), 5) == []
    assert run_end.incomplete([TP], {TP: 5}) == set()


def test_a_partition_that_was_added_later_is_of_a_later_run() -> None:
    run_end = RunEnd({TP: 10})
    assert run_end.before(ADDED, messages(0, partition=1)) == []
    assert run_end.incomplete([ADDED], {}) == set()


def test_a_run_without_partitions_has_no_record_but_those_of_topics_that_are_left_out() -> None:
    run_end = RunEnd({TP: 10, ADDED: 0})
    assert not run_end.is_empty(())
    assert run_end.is_empty(["readings"])


def test_quixstreams_passes_over_what_is_of_a_later_run() -> None:
    read = RunEnd({TP: 10}).only(lambda message: message.offset())
    assert read(messages(9)[0]) == 9
    with pytest.raises(IgnoreMessage):
        read(messages(10)[0])


def test_a_run_does_not_end_before_records_of_a_transaction_that_is_open() -> None:
    offsets: Any = SimpleNamespace(ends=lambda _: {TP: 10, ADDED: 10})
    with pytest.raises(RetryableError, match=r"offset 10 of readings\[1\]"):
        readable_ends(offsets, "readings", {TP: 10, ADDED: 15}, None)
