"""Keeps what the connector waits for at present: which system, since when, and why."""

import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from app.errors import ConnectorError, System


@dataclass(frozen=True, slots=True)
class Trouble:
    """An error that holds the connector up, or ends it.

    ``system`` is the one that failed, ``None`` where it is unknown. ``doing``, ``cause`` and ``hint`` are those of the
    error. ``seconds`` is for how long it has lasted, and ``exit_code`` that of the process if this error ends it,
    ``None`` where the process goes on.
    """

    system: System | None
    doing: str
    cause: str
    hint: str = ""
    seconds: float = 0.0
    exit_code: int | None = None

    @classmethod
    def of(cls, error: ConnectorError, seconds: float = 0.0) -> "Trouble":
        """The trouble that has lasted for so long."""
        return cls(error.system, error.doing, error.cause, error.hint, seconds, error.exit_code)


class Waits:
    """What is tried again at present. Safe from any thread.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._begun: dict[Hashable, tuple[float, ConnectorError]] = {}

    def failed(self, work: Hashable, error: ConnectorError, *, since: float | None = None) -> None:
        """Note that a try of this work failed, and that others follow.

        Args:
            work: the same at each try, until ``over``.
            error: of this try.
            since: when the work last succeeded (monotonic seconds); the first failure, where that is unknown.
        """
        with self._lock:
            now = self._clock() if since is None else since
            begin, _ = self._begun.get(work, (now, None))
            self._begun[work] = begin, error

    def over(self, work: Hashable) -> None:
        """Note that this work succeeded, or that nobody tries it again."""
        with self._lock:
            self._begun.pop(work, None)

    def current(self) -> tuple[Trouble, ...]:
        """What is waited for now, the longest wait first."""
        now = self._clock()
        with self._lock:
            begun = sorted(self._begun.values(), key=lambda wait: wait[0])
        return tuple(Trouble.of(error, max(0.0, now - begin)) for begin, error in begun)
