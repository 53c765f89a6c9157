"""The states of a topic: its table is being opened, is open, or is suspended; or it has none, or does not exist."""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Self

from app.delivery.member import Member
from app.delivery.runtime import Runtime
from app.errors import ConnectorError
from app.monitoring import status
from app.retries import Trouble

NewTable = Future["Open | str"]  # a table that is opened; else why the topic has none, empty if it is none of ours


@dataclass(frozen=True, slots=True)
class Suspended(status.Suspended):
    """Its table has failed with ``error``; ``due``: when it is opened again, by a clock that is never set back."""

    error: ConnectorError
    pause: float
    due: float

    @classmethod
    def after(cls, error: ConnectorError, last: "Suspended | None", runtime: Runtime) -> Self:
        """``last``: when it was suspended before. If that was not long ago, the pause is twice as long."""
        timings, clock, now = runtime.timings, runtime.timings.clock(), runtime.now()
        if last and clock - last.due >= timings.longest_suspension_seconds:
            last = None
        pause = min(2 * last.pause, timings.longest_suspension_seconds) if last else timings.first_suspension_seconds
        trouble = replace(Trouble.of(error), exit_code=None)
        since, tries = (last.since, last.tries + 1) if last else (now, 1)
        return cls(trouble, since, now + pause, tries, error, pause, clock + pause)


@dataclass(frozen=True, slots=True)
class Opening:
    """``last``: when its table was suspended before."""

    table: NewTable
    last: Suspended | None = None


@dataclass(frozen=True, slots=True)
class Open:
    """``close`` stops the member, and removes what that leaves on the disk; ``last`` as in ``Opening``."""

    member: Member
    close: Callable[[], object]
    last: Suspended | None = None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """It has no table until the next assignment at least."""

    reason: str


@dataclass(frozen=True, slots=True)
class Deleted:
    """Kafka does not have it. If it is assigned again, it goes on with the state ``before``."""

    before: "Topic | None"


Topic = Opening | Open | Suspended | LeftOut | Deleted
