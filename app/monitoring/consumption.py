"""How consuming goes at one moment, for metrics and the status page, and the answer to the platform's probe."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from app.model import TopicPartition


@dataclass(frozen=True, slots=True)
class Consumption:
    """Reads of single values without locks: the consumer's thread goes on meanwhile.

    Attributes:
        assigned: how many partitions are assigned.
        tps: those of them that are known by name.
        unclaimed: those of them that wait for their claims.
        fenced: those of them that must not be written any more, with the reasons.
        oldest: of each partition with records that are not in the lake, when the first of them came into being, in
            seconds since the epoch.
        consumed: how many messages came.
        due_in: seconds until the next commit is due, negative where it is late; ``None`` before consuming begins.
        held_bytes: of all records in Python.
        is_full: whether the buffer has reached its bound.
        is_paused: whether consuming is paused.
        is_stopping: whether a stop was requested.
        is_held_up: whether the last flush failed, and its batches are not in the lake yet.
    """

    assigned: int = 0
    tps: Collection[TopicPartition] = ()
    unclaimed: frozenset[TopicPartition] = frozenset()
    fenced: Mapping[TopicPartition, str] = field(default_factory=dict)
    oldest: Mapping[TopicPartition, float] = field(default_factory=dict)
    consumed: int = 0
    due_in: float | None = None
    held_bytes: int = 0
    is_full: bool = False
    is_paused: bool = False
    is_stopping: bool = False
    is_held_up: bool = False


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
