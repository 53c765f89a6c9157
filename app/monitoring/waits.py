"""Keeps what the connector waits for at present: which system, since when, and why."""

import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from app.errors import ConnectorError, System

OUTAGE_SECONDS: Final = 20.0  # a wait from here on is an outage, and the connector is not ready


@dataclass(frozen=True, slots=True)
class Trouble:
    """An error that holds the connector up, or ends it.

    ``system`` is the one that failed, ``None`` where it is unknown. ``doing``, ``cause`` and ``hint`` are those of the
    error. ``seconds`` is for how long it has lasted, and ``exit_code`` that of the process if this error ends it,
    ``None`` where the process goes on. ``is_unanswered``: it is no error yet, for the system has not answered.
    """

    system: System | None
    doing: str
    cause: str
    hint: str = ""
    seconds: float = 0.0
    exit_code: int | None = None
    is_unanswered: bool = False

    @classmethod
    def of(cls, error: ConnectorError, seconds: float = 0.0) -> "Trouble":
        """Returns the trouble that has lasted for so long."""
        return cls(error.system, error.doing, error.cause, error.hint, seconds, error.exit_code)


class Waits:
    """The operations in retry, and overdue answers. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._begun: dict[Hashable, tuple[float, ConnectorError]] = {}
        self._asked: dict[Hashable, tuple[float, float, System, str]] = {}  # begin, patience, system, doing

    def failed(self, work: Hashable, error: ConnectorError, *, since: float | None = None) -> None:
        """Notes that a try of this work failed, and that others follow.

        ``work`` is the same at each try, until ``over``. ``since`` is when it last succeeded (monotonic seconds); where
        that is unknown, the first failure counts.
        """
        with self._lock:
            now = self._clock() if since is None else since
            begin, _ = self._begun.get(work, (now, None))
            self._begun[work] = begin, error

    def over(self, work: Hashable) -> None:
        """Notes that this work succeeded, or that nobody tries it again."""
        with self._lock:
            self._begun.pop(work, None)

    @contextmanager
    def answer(self, work: Hashable, system: System, doing: str, patience: float) -> Iterator[None]:
        """Asks a system inside of the block; what takes longer than ``patience`` (seconds) is a wait.

        A system that hangs gives no error for minutes: clients wait for each answer, and ask again.
        """
        with self._lock:
            self._asked[work] = self._clock(), patience, system, doing
        try:
            yield
        finally:
            with self._lock:
                self._asked.pop(work, None)

    def current(self) -> tuple[Trouble, ...]:
        """Returns the present waits, the longest first."""
        now = self._clock()
        with self._lock:
            failed = [Trouble.of(error, max(0.0, now - begin)) for begin, error in self._begun.values()]
            unanswered = [
                Trouble(system, doing, "no answer yet", seconds=now - begin, is_unanswered=True)
                for work, (begin, patience, system, doing) in self._asked.items()
                if now - begin > patience and work not in self._begun
            ]
        return tuple(sorted(failed + unanswered, key=lambda trouble: -trouble.seconds))
