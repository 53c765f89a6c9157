"""The states of a topic. The table is being opened, open or suspended, or the topic has no table, or is deleted."""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Self

from app.delivery.member import Member
from app.delivery.runtime import Runtime
from app.errors import ConnectorError
from app.monitoring import status
from app.retries import Trouble

NewTable = Future["Open | str"]  # the open table, or why the topic has no table; empty text if the topic is internal


@dataclass(frozen=True, slots=True)
class Suspended(status.Suspended):
    """The topic's table has failed with ``error``. The table is opened again at ``due`` (monotonic seconds)."""

    error: ConnectorError
    pause: float
    due: float

    @classmethod
    def after(cls, error: ConnectorError, last: "Suspended | None", runtime: Runtime) -> Self:
        """Suspend a table. If the ``last`` suspension ended recently, the pause is twice as long."""
        timings, clock, now = runtime.timings, runtime.timings.clock(), runtime.now()
        if last and clock - last.due >= timings.longest_suspension_seconds:
            last = None
        pause = min(2 * last.pause, timings.longest_suspension_seconds) if last else timings.first_suspension_seconds
        trouble = replace(Trouble.of(error), exit_code=None)
        since, tries = (last.since, last.tries + 1) if last else (now, 1)
        return cls(trouble, since, now + pause, tries, error, pause, clock + pause)


@dataclass(frozen=True, slots=True)
class Opening:
    """The table is being opened. ``last`` is the table's last suspension."""

    table: NewTable
    last: Suspended | None = None


@dataclass(frozen=True, slots=True)
class Open:
    """The table is open. ``close`` stops the member and deletes its files. ``last`` is the table's last suspension."""

    member: Member
    close: Callable[[], object]
    last: Suspended | None = None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """The topic exists, but has no table. The next assignment may change this state."""

    reason: str


@dataclass(frozen=True, slots=True)
class Deleted:
    """Kafka does not have the topic. If Kafka assigns the topic again, its state is ``before``."""

    before: "Topic | None"


Topic = Opening | Open | Suspended | LeftOut | Deleted
