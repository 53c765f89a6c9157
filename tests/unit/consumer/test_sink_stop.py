"""The sink while the process stops: the last flush and its deadline."""

import pytest

from app.errors import RetryableError
from tests.unit.consumer.sink_bench import AWAY, Bench


@pytest.fixture
def bench() -> Bench:
    return Bench()


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
