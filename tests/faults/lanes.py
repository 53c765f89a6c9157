"""Threads of which one runs at a time, as far as it is let: up to its next request to another system.

What several processes do side by side thus happens in an order that a test chooses, and a failure can be repeated.
"""

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from enum import Enum
from types import TracebackType
from typing import ParamSpec, TypeVar

from app.errors import ConnectorError
from app.storage.base import ChangedError
from tests.fakes.clock import Clock
from tests.support.waiting import PATIENCE, TookTooLong, join

_Given = ParamSpec("_Given")
_T = TypeVar("_T")
BEGIN = "begin"  # what a lane waits for that has not begun yet


class Fate(Enum):
    ANSWERED = "answered"
    REFUSED = "refused"  # it failed before it had an effect
    UNANSWERED = "unanswered"  # it took effect, but its answer was lost
    DELAYED = "delayed"  # given up by its sender, it takes effect at some time later
    FORBIDDEN = "forbidden"  # refused for good


class Lane:
    """A thread that works while the test waits, and waits while the test works."""

    _current: "Lane | None" = None

    def __init__(self, name: str) -> None:
        self.name = name
        self.error: BaseException | None = None
        self.waits_for = ""  # what it is about to ask, while it is stopped there
        self._work: Callable[[], object] | None = None
        self._fate = Fate.ANSWERED
        self._killed = False
        self._thread: threading.Thread | None = None
        self._go, self._back = threading.Semaphore(0), threading.Semaphore(0)

    @property
    def is_idle(self) -> bool:
        return self._work is None

    def begin(self, work: Callable[[], object]) -> None:
        """Give it something to do; nothing of it is done before ``go``."""
        assert self.is_idle
        self._work = work
        self.waits_for = BEGIN

    def go(self, fate: Fate = Fate.ANSWERED) -> None:
        """Let it go on to its next request; the one that it waits at now meets this fate."""
        assert self._work is not None
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
            self._thread.start()
        self._fate = fate
        Lane._current = self
        self._go.release()
        if not self._back.acquire(timeout=PATIENCE):
            raise TookTooLong(f"{self.name} hangs after {self.waits_for}")
        Lane._current = None

    def kill(self) -> None:
        if self._thread is None:
            self._work = None
            return
        self._killed = True
        Lane._current = self  # what it still tries on its way out must not succeed
        self._go.release()
        join(self._thread)
        Lane._current = None
        self._work = None

    def _run(self) -> None:
        while True:
            self._go.acquire()
            if self._killed:
                return
            assert self._work is not None
            try:
                self._work()
            except BaseException as error:  # noqa: BLE001 - the test looks at it
                self.error = error
            if self._killed:
                return
            self._work = None
            self._back.release()

    def _pause(self, request: str) -> Fate:
        if self._killed:
            raise SystemExit  # a thread that ends with it says nothing
        self.waits_for = request
        self._back.release()
        self._go.acquire()
        if self._killed:
            raise SystemExit
        return self._fate


def pause(request: str) -> Fate:
    """Called right before a request: wait until the test lets it go, and learn its fate.

    The test's own requests are answered at once.
    """
    lane = Lane._current
    return lane._pause(request) if lane else Fate.ANSWERED


class LaneLock:
    """A lock that may be held over a request: whoever waits for it lets the test choose who runs."""

    def __init__(self) -> None:
        self._owner: Lane | None = None
        self._depth = 0

    def __enter__(self) -> None:
        while self._owner is not None and self._owner is not Lane._current:
            pause("a lock")
        self._owner, self._depth = Lane._current, self._depth + 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._depth -= 1
        if not self._depth:
            self._owner = None


class LaneEvent(threading.Event):
    """Ends a wait between two tries: the wait is as long as the test says."""

    def wait(self, timeout: float | None = None) -> bool:
        pause("the next try")
        return self.is_set()


class LaneCondition(threading.Condition):
    """A wait for it takes a second of the clock, and lets the test choose who runs. Nobody holds its lock meanwhile."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def __enter__(self) -> bool:
        return True

    def __exit__(self, *_: object) -> None:
        """One lane runs at a time."""

    def notify_all(self) -> None:
        """Who waits looks again when the test lets it go."""

    def wait(self, timeout: float | None = None) -> bool:
        pause("a change")
        self._clock.advance(1.0)
        return True

    def wait_for(self, predicate: Callable[[], _T], timeout: float | None = None) -> _T:
        if not predicate():
            self.wait(timeout)
        return predicate()


class AtOnce(Executor):
    """Stands in for a pool: what is submitted is done there and then."""

    def submit(self, work: Callable[_Given, _T], /, *args: _Given.args, **named: _Given.kwargs) -> Future[_T]:
        future: Future[_T] = Future()
        try:
            future.set_result(work(*args, **named))
        except Exception as error:  # noqa: BLE001 - whoever asks for the result gets it
            future.set_exception(error)
        return future


class LanePool(Executor):
    """Stands in for a pool: each piece of work has a lane of its own, which the test lets go. Nobody waits for it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.lanes: list[Lane] = []

    def submit(self, work: Callable[_Given, _T], /, *args: _Given.args, **named: _Given.kwargs) -> Future[_T]:
        lane = Lane(self._name)
        lane.begin(lambda: work(*args, **named))
        self.lanes.append(lane)
        return Future()

    def end_idle(self) -> None:
        """End the lanes that are through: a long run would have more threads than a system allows."""
        for lane in self.lanes:
            if lane.is_idle:
                lane.kill()
        self.lanes = [lane for lane in self.lanes if not lane.is_idle]


class Network:
    """All requests to other systems pass here."""

    def __init__(self) -> None:
        self.delayed: list[tuple[str, Callable[[], object]]] = []
        self.failures = 0

    def request(
        self,
        name: str,
        carry_out: Callable[[], _T],
        *,
        failed: Callable[[str], ConnectorError],
        forbidden: Callable[[str], ConnectorError],
        changes: bool,
    ) -> _T:
        """Send a request; what only reads (``changes``) can be neither unanswered nor delayed."""
        fate = pause(name)
        if fate is Fate.ANSWERED:
            return carry_out()
        self.failures += 1
        if fate is Fate.FORBIDDEN:
            raise forbidden("403")
        if changes and fate is Fate.UNANSWERED:
            carry_out()
        if changes and fate is Fate.DELAYED:
            self.delayed.append((name, carry_out))
        raise failed(fate.value)

    def deliver(self, index: int) -> None:
        _, carry_out = self.delayed.pop(index)
        with contextlib.suppress(ChangedError):  # nobody waits for the answer
            carry_out()
