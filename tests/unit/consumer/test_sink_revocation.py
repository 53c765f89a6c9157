"""The sink while its partitions are taken away: the last flush, its deadline, and the thread that it runs on."""

import threading
from collections.abc import Callable

import pytest
from quixstreams.sinks import SinkBackpressureError

from app.errors import RetryableError
from tests.support.batches import TP
from tests.unit.consumer.sink_bench import AWAY, OTHER, Bench

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


def test_a_flush_abandoned_by_a_revocation_cannot_touch_the_next_assignment(bench: Bench) -> None:
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
    assert [bench.assignments.is_current(token) for token in (first, second)] == [False, True]


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
