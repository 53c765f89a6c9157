"""Answers the platform's probe whether the connector is alive."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Probe:
    """The answer to a probe; ``detail`` gives the reason."""

    ok: bool
    detail: str


STARTING: Final = Probe(ok=False, detail="starting")


class Health:
    """Knows whether the consumer's loop turns; ``loop_seconds`` limits one turn with its flush."""

    def __init__(self, *, loop_seconds: float, clock: Callable[[], float]) -> None:
        self._loop_seconds = loop_seconds
        self._clock = clock
        self._last_turn: float | None = None
        self._spark_alive: Callable[[], bool] = lambda: True

    def started(self, spark_alive: Callable[[], bool]) -> None:
        """Expects turns of the loop from now on."""
        self._spark_alive = spark_alive
        self._last_turn = self._clock()

    def turn(self) -> None:
        """Notes a turn of the consumer's loop."""
        self._last_turn = self._clock()

    def live(self) -> Probe:
        """Answers OK while the process starts; afterwards while the loop turns and the JVM lives."""
        if self._last_turn is None:
            return Probe(ok=True, detail="starting")
        still = self._clock() - self._last_turn
        if still > self._loop_seconds:
            return Probe(ok=False, detail=f"the consumer's loop has not turned for {still:.0f} s")
        if not self._spark_alive():
            return Probe(ok=False, detail="Spark's Java process is gone")
        return Probe(ok=True, detail="running")
