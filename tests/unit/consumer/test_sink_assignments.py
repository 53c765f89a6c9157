"""The sink through assignments: whose rows it holds, and which of them nobody wrote."""

import pytest

from app.errors import RetryableError
from tests.support.batches import TP
from tests.unit.consumer.sink_bench import OTHER, Bench


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_rows_of_an_ended_assignment_are_dropped_and_the_others_kept(bench: Bench) -> None:
    bench.add(0, 1)
    bench.add(7, tp=OTHER)
    bench.sink.unassign([TP])
    bench.after(0, bench.pipeline.deliver_all)
    bench.sink.flush()
    assert bench.sealed == [{OTHER: [7]}]


def test_dropped_rows_no_longer_count_as_waiting(bench: Bench) -> None:
    bench.add(0, 1)
    bench.add(7, tp=OTHER)
    bench.sink.unassign([TP])
    bench.consume(8, tp=OTHER)
    assert bench.sealed == []
    bench.consume(9, tp=OTHER)
    assert bench.sealed == [{OTHER: [7, 8, 9]}]


def test_an_assignment_that_is_renewed_begins_with_nothing(bench: Bench) -> None:
    bench.add(0, 1)
    bench.sink.assign([TP])
    bench.consume(0, 1)
    assert bench.sealed == [], "the rows of the former life no longer count"
    bench.consume(2)
    assert bench.sealed == [{TP: [0, 1, 2]}]


def test_a_new_assignment_repeats_rows_that_the_old_one_sealed(bench: Bench) -> None:
    bench.consume(0, 1, 2)
    bench.sink.on_paused()
    bench.sink.unassign([TP, OTHER])
    bench.sink.assign([TP, OTHER])
    bench.consume(0, 1, 2)
    assert bench.sealed == [{TP: [0, 1, 2]}, {TP: [0, 1, 2]}]
    first, second = (batch.parts[0].owner for batch in bench.pipeline.batches)
    assert not bench.assignments.is_current(first)
    assert bench.assignments.is_current(second)


def test_the_present_assignments_are_known(bench: Bench) -> None:
    assert list(bench.assignments.tps) == [TP, OTHER]
    bench.sink.unassign([TP])
    assert list(bench.assignments.tps) == [OTHER]
    bench.sink.unassign([OTHER])
    assert list(bench.assignments.tps) == []


def test_a_flush_that_failed_for_a_former_assignment_says_nothing_about_the_next(bench: Bench) -> None:
    bench.consume(0)
    bench.sink.revoking(active=True)
    with pytest.raises(RetryableError):
        bench.sink.flush()
    bench.sink.revoking(active=False)
    bench.sink.unassign([TP, OTHER])
    bench.sink.assign([TP])
    assert bench.sink.last_flush_ok


def test_rows_given_away_unwritten_are_remembered(bench: Bench) -> None:
    bench.sink.unassign([TP])
    assert not bench.sink.left_rows_behind
    bench.consume(0, tp=OTHER)
    bench.sink.unassign([OTHER])
    assert bench.sink.left_rows_behind
    bench.sink.assign([TP])
    assert not bench.sink.left_rows_behind


def test_sealed_rows_given_away_before_their_delivery_are_remembered(bench: Bench) -> None:
    bench.consume(0, 1, 2)
    bench.sink.unassign([TP, OTHER])
    assert bench.sink.left_rows_behind


def test_rows_that_a_flush_saw_delivered_are_not_left_behind(bench: Bench) -> None:
    bench.consume(0, 1, 2)
    bench.pipeline.deliver_all()
    bench.sink.flush()
    bench.sink.unassign([TP, OTHER])
    assert not bench.sink.left_rows_behind


def test_rows_delivered_without_a_flush_to_commit_them_will_come_again(bench: Bench) -> None:
    bench.consume(0, 1, 2)
    bench.pipeline.deliver_all()
    bench.sink.unassign([TP, OTHER])
    assert bench.sink.left_rows_behind
