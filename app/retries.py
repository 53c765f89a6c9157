"""Retries failed requests to other systems. Lists the present waits for other systems, with causes and durations."""

import logging
import math
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

from app.errors import ConnectorError, RetryableError, System, blaming
from app.timings import DEFAULT, Timings

logger = logging.getLogger(__name__)

OUTAGE_SECONDS: Final = 20.0  # a longer wait is an outage, and the connector is not ready
_FEWEST_TRIES: Final = 30  # minimum number of tries within a time limit

# Operations with retries; docs/monitoring.md explains each of them.
Operation = Literal["schema", "journal", "upload", "register", "claim", "commit", "kafka"]
_T = TypeVar("_T")


class Stopped(Exception):  # noqa: N818 - not an error: the process stops, or the work is not needed any more
    """The wait has ended, but the work is not done."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request to another system.

    Attributes:
        doing: The action in words, shown while an answer is overdue; empty if the request is never shown.
        operation: The operation for which failed tries are counted.
        patience: Seconds after which an answer is overdue.
    """

    system: System
    doing: str = ""
    operation: Operation | None = None
    patience: float = OUTAGE_SECONDS


@dataclass(frozen=True, slots=True)
class Trouble:
    """An error that delays or ends the connector.

    ``system`` is the failed system, ``None`` if unknown. ``doing``, ``cause`` and ``hint`` are copied from the error.
    ``seconds`` is the error's duration. ``exit_code`` is the process's exit code if the error ends the process,
    otherwise ``None``. ``is_unanswered``: no error exists yet, because the system has not answered. ``table`` is the
    name of the waiting table, if only one of several tables waits.
    """

    system: System | None
    doing: str
    cause: str
    hint: str = ""
    seconds: float = 0.0
    exit_code: int | None = None
    is_unanswered: bool = False
    table: str = ""

    @classmethod
    def of(cls, error: ConnectorError, seconds: float = 0.0, table: str = "") -> "Trouble":
        """Returns the trouble for an error that has lasted for ``seconds``."""
        return cls(error.system, error.doing, error.cause, error.hint, seconds, error.exit_code, table=table)


class Waits:
    """The retried requests, and the overdue answers. Thread-safe. Each thread waits for one request at a time.

    Args:
        count: Function that is called for each failed try of an operation.
    """

    def __init__(self, timings: Timings = DEFAULT, count: Callable[[Operation], None] = lambda _: None) -> None:
        self._timings = timings
        self._count = count
        self._table = ""
        self._lock = threading.Lock()
        # By thread: the start of the wait, the error or the request, and the table.
        self._failing: dict[int, tuple[float, ConnectorError, Operation | None, str]] = {}
        self._asked: dict[int, tuple[float, Request, str]] = {}

    def of_table(self, table: str, count: Callable[[Operation], None]) -> "Waits":
        """Returns the waits for one of several tables. This object also lists these waits, with the table's name."""
        waits = copy(self)
        waits._table, waits._count = table, count
        return waits

    def retry(
        self,
        request: Request,
        work: Callable[[], _T],
        *,
        stop: threading.Event | None = None,
        is_wanted: Callable[[], bool] = lambda: True,
        give_up_seconds: float = math.inf,
        add_waited: Callable[[float], object] = lambda _: None,
    ) -> _T:
        """Calls ``work`` until it raises no ``RetryableError``. Pauses between calls grow, and are partly random.

        Args:
            request: Describes the request.
            work: Function that sends the request. Calls may be repeated.
            stop: Event that ends the wait.
            is_wanted: Function that is called after each failure. If it returns ``False``, the wait ends.
            give_up_seconds: Limit of the wait in seconds.
            add_waited: Function that receives the wait's seconds, without the last try if it was answered in time.

        Raises:
            Stopped: ``stop`` was set, or ``is_wanted`` returned ``False``.
            RetryableError: The work still failed after ``give_up_seconds``.
        """
        clock = self._timings.clock
        begin = tried = clock()
        longest = min(self._timings.longest_retry_seconds, give_up_seconds / _FEWEST_TRIES)
        pause = min(self._timings.first_retry_seconds, longest)
        stop = stop or threading.Event()
        failed_at, doing, logged = None, "", set[str]()  # causes may alternate, such as a broker's addresses
        try:
            while True:
                tried = clock()
                try:
                    with self.answer(request):
                        result = work()
                except RetryableError as error:
                    failed_at, doing = failed_at or clock(), error.doing
                    is_late = clock() - tried > request.patience
                    self.failed(error, request.operation, since=tried if is_late else None)
                    if clock() - begin >= give_up_seconds:
                        raise
                    if str(error) not in logged:
                        logged.add(str(error))
                        limit = "until it works" if give_up_seconds == math.inf else f"for {give_up_seconds:.0f} s"
                        logger.warning("%s. Retrying %s", str(error).rstrip("."), limit)
                    # Half of the pause is random, so that many sinks do not return to a store at the same moment. A
                    # ``retry_after`` can only lengthen the pause, because pauses of 0 s would make a busy loop.
                    seconds = max(pause * random.uniform(0.5, 1), error.retry_after or 0.0)  # noqa: S311
                    if not is_wanted() or stop.wait(min(seconds, longest)):
                        raise Stopped from error
                    pause = min(pause * 2, longest)
                else:
                    if failed_at is not None:
                        logger.info("%s: it works again after %.0f s", doing, clock() - failed_at)
                    return result
        finally:
            self.over()
            add_waited((clock() if clock() - tried > request.patience else tried) - begin)

    def at_start(self, system: System, work: Callable[[], _T]) -> _T:
        """Calls ``work``, and retries for a limited time, because this system may still be starting."""
        return self.retry(Request(system), work, give_up_seconds=self._timings.start_patience_seconds)

    def failed(self, error: ConnectorError, operation: Operation | None = None, *, since: float | None = None) -> None:
        """Notes that a try on this thread has failed. The thread repeats the try, and then calls ``over``.

        ``since`` is when the wait began (monotonic seconds). By default, the wait begins with the first failure.
        """
        if operation:
            self._count(operation)
        now, me = self._timings.clock() if since is None else since, threading.get_ident()
        with self._lock:
            begin = self._failing[me][0] if me in self._failing else now
            self._failing[me] = begin, error, operation, self._table

    def over(self) -> None:
        """Notes that this thread's work has succeeded, or is not retried any more."""
        with self._lock:
            self._failing.pop(threading.get_ident(), None)

    @contextmanager
    def answer(self, request: Request) -> Iterator[None]:
        """Adds the request's system to errors of the block. If the block exceeds ``patience``, ``current`` lists it.

        If a system hangs, clients return no error for minutes, because they wait for each answer, and repeat the
        request. An inner block replaces the outer block.
        """
        me = threading.get_ident()
        with self._lock:
            self._asked[me] = self._timings.clock(), request, self._table
        try:
            with blaming(request.system):
                yield
        finally:
            with self._lock:
                self._asked.pop(me, None)

    def failing(self, *operations: Operation) -> ConnectorError | None:
        """Returns the error of one of these operations if this table is retrying the operation, otherwise ``None``."""
        with self._lock:
            failing = [(error, what) for _, error, what, table in self._failing.values() if table == self._table]
        return next((error for error, what in failing if what in operations), None)

    def current(self) -> tuple[Trouble, ...]:
        """Returns the present waits, the longest wait first."""
        now = self._timings.clock()
        with self._lock:
            failed = [Trouble.of(error, max(0.0, now - at), table) for at, error, _, table in self._failing.values()]
            unanswered = [
                Trouble(request.system, request.doing, "no answer yet", "", now - begin, None, True, table)
                for thread, (begin, request, table) in self._asked.items()
                if request.doing and now - begin > request.patience and thread not in self._failing
            ]
        return tuple(sorted(failed + unanswered, key=lambda trouble: -trouble.seconds))
