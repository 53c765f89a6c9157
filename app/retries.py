"""Waits for other systems: repeats what failed, and keeps what is waited for at present, since when, and why."""

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

OUTAGE_SECONDS: Final = 20.0  # a wait from here on is an outage, and the connector is not ready
_FEWEST_TRIES: Final = 30  # in a wait that has an end

# Operations with retries; docs/monitoring.md explains each of them.
Operation = Literal["schema", "journal", "upload", "register", "claim", "commit", "kafka"]
_T = TypeVar("_T")


class Stopped(Exception):  # noqa: N818 - not an error: the process is asked to end, or nobody wants the work any more
    """The wait has ended; the work is not done."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of another system.

    Attributes:
        doing: shown while an answer is overdue; empty if none can be.
        operation: the one whose failed tries are counted.
        patience: seconds after which an answer is overdue.
    """

    system: System
    doing: str = ""
    operation: Operation | None = None
    patience: float = OUTAGE_SECONDS


@dataclass(frozen=True, slots=True)
class Trouble:
    """An error that holds the connector up, or ends it.

    ``system`` is the one that failed, ``None`` where it is unknown. ``doing``, ``cause`` and ``hint`` are those of the
    error. ``seconds`` is for how long it has lasted, and ``exit_code`` that of the process if this error ends it,
    ``None`` where the process goes on. ``is_unanswered``: it is no error yet, for the system has not answered.
    ``table`` is the one that waits, where there are several and it is only one.
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
        """Returns the trouble that has lasted for so long."""
        return cls(error.system, error.doing, error.cause, error.hint, seconds, error.exit_code, table=table)


class Waits:
    """The requests in retry, and overdue answers. Thread-safe; a thread waits for one request at a time.

    Args:
        count: called for each failed try of an operation.
    """

    def __init__(self, timings: Timings = DEFAULT, count: Callable[[Operation], None] = lambda _: None) -> None:
        self._timings = timings
        self._count = count
        self._table = ""
        self._lock = threading.Lock()
        # By thread: since when, what, and for which table.
        self._failing: dict[int, tuple[float, ConnectorError, Operation | None, str]] = {}
        self._asked: dict[int, tuple[float, Request, str]] = {}

    def of_table(self, table: str, count: Callable[[Operation], None]) -> "Waits":
        """Returns these waits as one of several tables uses them: what it waits for is kept here, with its name."""
        its = copy(self)
        its._table, its._count = table, count
        return its

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
        """Calls ``work`` until it no longer raises ``RetryableError``, with growing, jittered pauses.

        Args:
            request: what the work asks.
            work: safe to repeat.
            stop: ends the wait.
            is_wanted: asked after each failure; ``False`` ends the wait.
            give_up_seconds: how long to repeat it.
            add_waited: gets the seconds of the wait: all but the try that worked in time.

        Raises:
            Stopped: ``stop`` was set, or the work is not wanted any more.
            RetryableError: it still failed after ``give_up_seconds``.
        """
        clock = self._timings.clock
        begin = tried = clock()
        longest = min(self._timings.longest_retry_seconds, give_up_seconds / _FEWEST_TRIES)
        pause = min(self._timings.first_retry_seconds, longest)
        stop = stop or threading.Event()
        failed_at, doing, logged = None, "", set[str]()  # causes may take turns, such as a broker's addresses
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
                        logger.warning("%s. Trying again %s", str(error).rstrip("."), limit)
                    # Half of the pause is random, so that many sinks do not return to a store at the same moment. The
                    # other side's ``retry_after`` can only lengthen it: repeated answers of 0 s would make a busy loop.
                    wanted = max(pause * random.uniform(0.5, 1), error.retry_after or 0.0)  # noqa: S311
                    if not is_wanted() or stop.wait(min(wanted, longest)):
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
        """Repeats ``work`` for a while: this system may not be up yet."""
        return self.retry(Request(system), work, give_up_seconds=self._timings.start_patience_seconds)

    def failed(self, error: ConnectorError, operation: Operation | None = None, *, since: float | None = None) -> None:
        """Notes that a try on this thread failed, and that others follow, until ``over``.

        ``since`` is when it last succeeded (monotonic seconds); where that is unknown, the first failure counts.
        """
        if operation:
            self._count(operation)
        now, me = self._timings.clock() if since is None else since, threading.get_ident()
        with self._lock:
            begin = self._failing[me][0] if me in self._failing else now
            self._failing[me] = begin, error, operation, self._table

    def over(self) -> None:
        """Notes that what this thread tried has succeeded, or that nobody tries it again."""
        with self._lock:
            self._failing.pop(threading.get_ident(), None)

    @contextmanager
    def answer(self, request: Request) -> Iterator[None]:
        """Asks a system inside of the block, and blames it; what takes longer than its ``patience`` is a wait.

        A system that hangs gives no error for minutes: clients wait for each answer, and ask again. A block inside of
        another one takes its place.
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
        """Returns the error of one of these operations that is tried again at present, for this table."""
        with self._lock:
            failing = [(error, what) for _, error, what, table in self._failing.values() if table == self._table]
        return next((error for error, what in failing if what in operations), None)

    def current(self) -> tuple[Trouble, ...]:
        """Returns the present waits, the longest first."""
        now = self._timings.clock()
        with self._lock:
            failed = [Trouble.of(error, max(0.0, now - at), its) for at, error, _, its in self._failing.values()]
            unanswered = [
                Trouble(request.system, request.doing, "no answer yet", "", now - begin, None, True, table)
                for thread, (begin, request, table) in self._asked.items()
                if request.doing and now - begin > request.patience and thread not in self._failing
            ]
        return tuple(sorted(failed + unanswered, key=lambda trouble: -trouble.seconds))
