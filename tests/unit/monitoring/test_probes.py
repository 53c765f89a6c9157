"""What the probes are told of a loop whose turns and Spark a test plays."""

import pytest

from app.monitoring.status import Health, Probe
from tests.fakes.clock import Clock

LOOP_SECONDS = 235.0


class Played:
    def __init__(self) -> None:
        self.clock = Clock()
        self.health = Health(loop_seconds=LOOP_SECONDS, clock=self.clock)
        self.spark_alive = True

    def started(self) -> None:
        self.health.started(lambda: self.spark_alive)


@pytest.fixture
def played() -> Played:
    return Played()


def test_a_process_that_starts_is_live_however_long_it_takes(played: Played) -> None:
    played.clock.advance(10_000)
    assert played.health.live() == Probe(ok=True, detail="starting")


def test_a_loop_that_hangs_is_not_live_until_it_turns_again(played: Played) -> None:
    played.started()
    played.clock.advance(LOOP_SECONDS)
    assert played.health.live().ok
    played.clock.advance(1)
    assert played.health.live() == Probe(ok=False, detail="the consumer's loop has not turned for 236 s")
    played.health.turn()
    assert played.health.live() == Probe(ok=True, detail="running")


def test_without_its_java_process_it_is_not_live(played: Played) -> None:
    played.started()
    played.spark_alive = False
    assert played.health.live() == Probe(ok=False, detail="Spark's Java process has ended")
