"""The sink when another member writes one of its partitions: nothing is committed, and the process does not go on."""

import pytest
from quixstreams.sinks import SinkBackpressureError

from app.errors import RetryableError
from app.journal.document import FencedError
from tests.support.batches import TP
from tests.unit.consumer.sink_bench import OTHER, Bench

REASON = "file:///lake/t/_journal/g/sensors/0.json was taken over by another member of the consumer group"


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    bench.after(0, bench.pipeline.deliver_all)
    return bench


def token(bench: Bench) -> str:
    found = bench.assignments.token(TP)
    assert found is not None
    return found


def fence(bench: Bench) -> None:
    bench.assignments.fence(token(bench), FencedError(REASON))


def test_a_flush_asks_for_a_pause_instead_of_letting_offsets_be_committed(bench: Bench) -> None:
    bench.consume(0)
    fence(bench)
    for _ in range(2):
        with pytest.raises(SinkBackpressureError) as raised:
            bench.sink.flush()
        assert raised.value.retry_after == 5
        assert not bench.sink.last_flush_ok


def test_a_flush_of_other_partitions_is_held_up_too(bench: Bench) -> None:
    """The checkpoint commits all partitions together."""
    bench.consume(0, tp=OTHER)
    fence(bench)
    with pytest.raises(SinkBackpressureError):
        bench.sink.flush()


def test_a_partition_fenced_while_the_flush_waits_holds_it_up(bench: Bench) -> None:
    def fence_and_deliver() -> None:
        fence(bench)
        bench.pipeline.deliver_all()

    bench.consume(0)
    bench.after(1, fence_and_deliver)
    with pytest.raises(SinkBackpressureError):
        bench.sink.flush()


@pytest.mark.parametrize("is_stop", [True, False])
def test_the_last_flush_of_an_assignment_gives_up_with_the_reason(bench: Bench, *, is_stop: bool) -> None:
    bench.consume(0)
    fence(bench)
    if is_stop:
        bench.sink.stopping()
    else:
        bench.sink.revoking(active=True)
    with pytest.raises(RetryableError, match="was taken over by another member") as raised:
        bench.sink.flush()
    assert raised.value.exit_code == 75
    assert not bench.sink.last_flush_ok


def test_being_fenced_for_long_while_the_partition_stays_ends_the_process(bench: Bench) -> None:
    fence(bench)
    bench.sink.turn()
    bench.clock.advance(20)
    bench.sink.turn()
    bench.clock.advance(0.1)
    with pytest.raises(RetryableError, match="was taken over by another member") as raised:
        bench.sink.turn()
    assert raised.value.exit_code == 75
    assert "If no other connector uses this consumer group and table" in raised.value.hint


def test_the_time_runs_through_pauses(bench: Bench) -> None:
    fence(bench)
    for _ in range(4):
        bench.consume(0)
        with pytest.raises(SinkBackpressureError):
            bench.sink.flush()
        bench.clock.advance(5)
    bench.clock.advance(0.1)
    with pytest.raises(RetryableError):
        bench.sink.turn()


def test_being_fenced_is_forgotten_when_the_assignment_ends(bench: Bench) -> None:
    fence(bench)
    bench.sink.unassign([TP, OTHER])
    bench.sink.assign([OTHER])
    bench.consume(0, tp=OTHER)
    bench.sink.flush()
    bench.clock.advance(60)
    bench.sink.turn()
    assert bench.sink.last_flush_ok


def test_news_of_an_ended_assignment_say_nothing_about_the_present_one(bench: Bench) -> None:
    former = token(bench)
    bench.sink.unassign([TP, OTHER])
    bench.sink.assign([TP, OTHER])
    bench.assignments.fence(former, FencedError(REASON))
    bench.consume(0)
    bench.sink.flush()
    bench.clock.advance(60)
    bench.sink.turn()
