"""The sink through pauses of the consumer: each row is sealed once."""

import pytest
from quixstreams.sinks import SinkBackpressureError

from app.monitoring.plain_words import plain
from tests.support.batches import TP
from tests.unit.consumer.sink_bench import AWAY, OTHER, Bench


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_store_that_stays_away_pauses_the_consumer(bench: Bench) -> None:
    bench.consume(0)
    bench.pipeline.obstacle = AWAY
    begin = bench.clock.now
    with pytest.raises(SinkBackpressureError) as caught:
        bench.sink.flush()
    assert caught.value.retry_after == 5
    assert 3 < bench.clock.now - begin < 4


def test_the_sink_has_a_name_in_the_warning_of_quixstreams(bench: Bench) -> None:
    warning = f'Backpressure for sink "{bench.sink}" is detected'
    assert plain(warning) == warning == 'Backpressure for sink "lake" is detected'


def test_a_flush_that_failed_holds_up_until_its_batches_are_in_the_lake(bench: Bench) -> None:
    assert not bench.sink.is_held_up
    bench.consume(0)
    bench.pipeline.obstacle = AWAY
    with pytest.raises(SinkBackpressureError):
        bench.sink.flush()
    assert bench.sink.is_held_up
    bench.pipeline.deliver_all()
    assert not bench.sink.is_held_up
    assert not bench.sink.last_flush_ok  # nothing is committed yet


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
