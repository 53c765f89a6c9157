"""The sink through pauses, revocations, stops and new assignments: whose rows it holds, each sealed once."""

import threading
from collections.abc import Callable

import pytest
from quixstreams.sinks import SinkBackpressureError

from app.errors import RetryableError
from tests.unit.batches import TP
from tests.unit.sink_bench import AWAY, OTHER, Bench

WAIT = 10.0


@pytest.fixture
def bench() -> Bench:
    return Bench()


def on_another_thread(work: Callable[[], None]) -> tuple[threading.Thread, list[BaseException]]:
    """Run the work as quixstreams runs the flush of a revocation."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - handed to the test
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, errors


# --- back-pressure --------------------------------------------------------------------------------------------------


def test_a_store_that_stays_away_pauses_the_consumer(bench: Bench) -> None:
    bench.consume(0)
    bench.pipeline.obstacle = AWAY
    begin = bench.clock.now
    with pytest.raises(SinkBackpressureError) as caught:
        bench.sink.flush()
    assert caught.value.retry_after == 5
    assert 3 < bench.clock.now - begin < 4


def test_a_short_hiccup_pauses_nothing(bench: Bench) -> None:
    def recover() -> None:
        bench.pipeline.obstacle = None
        bench.pipeline.deliver_all()

    bench.consume(0)
    bench.pipeline.obstacle = AWAY
    bench.after(2, recover)
    bench.sink.flush()


def test_a_short_hiccup_late_in_a_long_flush_pauses_nothing(bench: Bench) -> None:
    def hiccup() -> None:
        bench.pipeline.obstacle = AWAY
        bench.after(2, recover)

    def recover() -> None:
        bench.pipeline.obstacle = None
        bench.pipeline.deliver_all()

    bench.consume(0)
    bench.after(60, hiccup)
    bench.sink.flush()


def test_hiccups_are_not_added_up(bench: Bench) -> None:
    """Three seconds without a moment in which it works are an outage, hiccups of two are not."""
    bench.consume(0)

    def come_and_go() -> None:
        second = bench.pipeline.waits * 0.25
        bench.pipeline.obstacle = AWAY if second % 3 < 2 else None
        if second > 20:
            bench.pipeline.deliver_all()

    bench.pipeline.on_wait = come_and_go
    bench.sink.flush()


def test_a_flush_that_takes_too_long_pauses_the_consumer(bench: Bench) -> None:
    bench.consume(0)
    begin = bench.clock.now
    with pytest.raises(SinkBackpressureError):
        bench.sink.flush()
    assert 180 <= bench.clock.now - begin < 181


def test_after_a_pause_rows_that_are_sealed_are_skipped_and_no_others(bench: Bench) -> None:
    bench.consume(0, 1, 2, 3, 4)
    bench.consume(100, tp=OTHER)
    bench.pipeline.obstacle = AWAY
    with pytest.raises(SinkBackpressureError):
        bench.sink.flush()
    bench.pipeline.obstacle = None
    bench.add(0, 1, 2, 3, 4, 5, 6)
    bench.add(100, 101, tp=OTHER)
    bench.after(0, bench.pipeline.deliver_all)
    bench.sink.flush()
    assert bench.sealed == [{TP: [0, 1, 2]}, {TP: [3, 4], OTHER: [100]}, {TP: [5, 6], OTHER: [101]}]


def test_after_two_pauses_in_a_row_every_row_is_sealed_once(bench: Bench) -> None:
    bench.pipeline.obstacle = AWAY
    for last in (3, 5, 8):
        bench.add(*range(last))
        with pytest.raises(SinkBackpressureError):
            bench.sink.flush()
    assert [batch[TP] for batch in bench.sealed] == [[0, 1, 2], [3, 4], [5, 6, 7]]


def test_a_pause_before_the_repetition_is_over_loses_and_doubles_nothing(bench: Bench) -> None:
    bench.pipeline.obstacle = AWAY
    for rows in (range(6), range(3), range(7)):
        bench.add(*rows)
        with pytest.raises(SinkBackpressureError):
            bench.sink.flush()
    assert [batch[TP] for batch in bench.sealed] == [[0, 1, 2, 3, 4, 5], [6]]


def test_a_pause_that_another_sink_asked_for_drops_what_is_not_sealed(bench: Bench) -> None:
    bench.consume(0, 1, 2, 3)
    bench.sink.on_paused()
    bench.add(0, 1, 2, 3, 4)
    bench.after(0, bench.pipeline.deliver_all)
    bench.sink.flush()
    assert bench.sealed == [{TP: [0, 1, 2]}, {TP: [3, 4]}]


def test_offsets_that_go_back_without_a_pause_are_no_repetition(bench: Bench) -> None:
    """A topic made anew begins at zero; a buffered join gives out records with the offsets they once had."""
    bench.consume(100, 101, 102)
    bench.consume(0, 1, 2)
    assert bench.sealed == [{TP: [100, 101, 102]}, {TP: [0, 1, 2]}]


def test_a_row_that_comes_late_does_not_double_the_others_after_a_pause(bench: Bench) -> None:
    bench.add(100, 101, 5)
    bench.pipeline.obstacle = AWAY
    for _ in range(2):
        with pytest.raises(SinkBackpressureError):
            bench.sink.flush()
        bench.add(100, 101, 5)
    assert bench.sealed == [{TP: [100, 101, 5]}]


# --- revocation -----------------------------------------------------------------------------------------------------


def test_a_revocation_never_pauses_but_gives_up_with_the_reason(bench: Bench) -> None:
    bench.consume(0)
    bench.pipeline.obstacle = AWAY
    begin = bench.clock.now
    bench.sink.revoking(active=True)
    with pytest.raises(RetryableError) as caught:
        bench.sink.flush()
    assert 55 <= bench.clock.now - begin < 56
    assert "before the partitions are given away" in str(caught.value)
    assert "no route to host" in str(caught.value)
    assert "the next owner of the partitions reads them again" in str(caught.value)


def test_after_a_revocation_flushes_pause_again(bench: Bench) -> None:
    bench.sink.revoking(active=True)
    bench.sink.revoking(active=False)
    bench.consume(0)
    bench.pipeline.obstacle = AWAY
    with pytest.raises(SinkBackpressureError):
        bench.sink.flush()


def test_the_flush_of_a_revocation_seals_and_waits_on_its_own_thread(bench: Bench) -> None:
    bench.consume(0)
    bench.after(1, bench.pipeline.deliver_all)
    bench.sink.revoking(active=True)
    thread, errors = on_another_thread(bench.sink.flush)
    thread.join(WAIT)
    bench.sink.revoking(active=False)
    assert errors == []
    assert bench.sealed == [{TP: [0]}]


def test_a_flush_left_behind_by_a_revocation_cannot_touch_the_next_life(bench: Bench) -> None:
    waiting, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        waiting.set()
        go_on.wait(WAIT)

    bench.pipeline.on_wait = wait
    bench.consume(0)
    bench.sink.revoking(active=True)
    thread, errors = on_another_thread(bench.sink.flush)
    assert waiting.wait(WAIT)
    bench.sink.revoking(active=False)
    bench.sink.unassign([TP, OTHER])
    bench.sink.assign([TP])
    bench.add(0, 1)
    go_on.set()
    bench.pipeline.on_wait = lambda: None
    thread.join(WAIT)
    assert [type(error) for error in errors] == [RetryableError]
    assert bench.sealed == [{TP: [0]}]

    bench.after(0, bench.pipeline.deliver_all)
    bench.sink.flush()
    assert bench.sealed[1:] == [{TP: [0, 1]}]
    first, second = (batch.parts[0].owner for batch in bench.pipeline.batches)
    assert [bench.sink.is_owner(token) for token in (first, second)] == [False, True]


def test_a_flush_that_starts_after_its_revocation_is_over_seals_nothing(bench: Bench) -> None:
    """The thread of a frozen process may get to run only then, while the consumer's thread adds rows."""
    bench.sink.revoking(active=True)
    bench.sink.revoking(active=False)
    bench.sink.unassign([TP, OTHER])
    bench.sink.assign([TP])
    bench.add(0, 1)
    thread, errors = on_another_thread(bench.sink.flush)
    thread.join(WAIT)
    assert [type(error) for error in errors] == [RetryableError]
    assert bench.sealed == []


# --- stop -----------------------------------------------------------------------------------------------------------


def test_the_last_flush_has_the_deadline_of_the_stop(bench: Bench) -> None:
    bench.consume(0)
    bench.pipeline.obstacle = AWAY
    begin = bench.clock.now
    bench.sink.stopping()
    with pytest.raises(RetryableError) as caught:
        bench.sink.flush()
    assert 25 <= bench.clock.now - begin < 26
    assert "before the process ends" in str(caught.value)


def test_a_stop_while_a_flush_waits_shortens_it(bench: Bench) -> None:
    bench.consume(0)
    begin = bench.clock.now

    def stop() -> None:
        bench.sink.stopping()
        bench.pipeline.on_wait = lambda: None

    bench.after(100, stop)
    with pytest.raises(RetryableError) as caught:
        bench.sink.flush()
    assert 125 <= bench.clock.now - begin < 126
    assert "the pipeline did not finish in time" in str(caught.value)


def test_a_revocation_while_stopping_keeps_to_the_stop(bench: Bench) -> None:
    bench.consume(0)
    bench.sink.stopping()
    begin = bench.clock.now
    bench.sink.revoking(active=True)
    with pytest.raises(RetryableError):
        bench.sink.flush()
    assert bench.clock.now - begin < 26


def test_a_last_flush_in_time_is_none_the_worse(bench: Bench) -> None:
    bench.consume(0)
    bench.sink.stopping()
    bench.after(20, bench.pipeline.deliver_all)
    bench.sink.flush()


# --- assignments ----------------------------------------------------------------------------------------------------


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


def test_a_new_life_repeats_rows_that_the_old_one_sealed(bench: Bench) -> None:
    bench.consume(0, 1, 2)
    bench.sink.on_paused()
    bench.sink.unassign([TP, OTHER])
    bench.sink.assign([TP, OTHER])
    bench.consume(0, 1, 2)
    assert bench.sealed == [{TP: [0, 1, 2]}, {TP: [0, 1, 2]}]
    first, second = (batch.parts[0].owner for batch in bench.pipeline.batches)
    assert not bench.sink.is_owner(first)
    assert bench.sink.is_owner(second)


def test_the_sink_knows_whether_it_has_partitions(bench: Bench) -> None:
    assert bench.sink.is_assigned
    bench.sink.unassign([TP])
    assert bench.sink.is_assigned
    bench.sink.unassign([OTHER])
    assert not bench.sink.is_assigned


def test_a_flush_that_failed_for_a_former_life_says_nothing_about_the_next(bench: Bench) -> None:
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
