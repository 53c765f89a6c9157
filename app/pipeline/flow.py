"""What the threads of the pipeline have in common: the batches between them, what they wait for, and their failure."""

import queue
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Generic, TypeVar

from app.errors import ConnectorError, RetryableError, System, blaming
from app.model import DataFile, StagedFile
from app.monitoring.metrics import Metrics, Operation
from app.monitoring.waits import OUTAGE_SECONDS
from app.pipeline.assignment import Assignment
from app.pipeline.in_flight import BatchInFlight
from app.retry import Stopped, until_it_works
from app.timings import DEFAULT, Timings

_T = TypeVar("_T")
_LOOK_SECONDS = 0.2  # between two checks whether the pipeline is stopped
# The system and the request of each operation.
_ASKED: Mapping[Operation, tuple[System, str]] = {
    "schema": ("store", "reading the table's schema"),
    "kafka": ("Kafka", "asking for the ids of the topics"),
    "journal": ("store", "writing the journal"),
    "upload": ("store", "uploading files"),
    "register": ("store", "reading the journal before files are registered"),
}


class Handover(Generic[_T]):
    """Hands work from one thread to the next: a queue of one, whose waiting ends when ``stop`` is set.

    A failure goes the way of the batches, so that those before it still arrive.
    """

    def __init__(self, stop: threading.Event) -> None:
        self._queue: queue.Queue[_T | ConnectorError] = queue.Queue(maxsize=1)
        self._stop = stop

    @property
    def is_empty(self) -> bool:
        return self._queue.empty()

    def put(self, item: _T | ConnectorError) -> None:
        while True:
            if self._stop.is_set():
                raise Stopped
            try:
                return self._queue.put(item, timeout=_LOOK_SECONDS)
            except queue.Full:
                continue

    def get(self) -> _T:
        """The next item; raises a failure."""
        while True:
            if self._stop.is_set():
                raise Stopped
            try:
                item = self._queue.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                continue
            if isinstance(item, ConnectorError):
                raise item
            return item


class Flow:
    """Thread-safe.

    Args:
        metrics: counts batches, and tries that failed.
        timings: the pauses between tries, and the clock.

    Attributes:
        stop: ends all waiting.
        changed: notified when a batch has come a step further, or something is waited for.
        staged, written: batches for the next thread.
        held_bytes: of the records that wait for their conversion.
        begun, ended: batches.
        failure: the error that stopped the pipeline.
    """

    def __init__(self, metrics: Metrics | None = None, timings: Timings = DEFAULT) -> None:
        self.metrics = metrics or Metrics()
        self.timings = timings
        self.stop = threading.Event()
        self.changed = threading.Condition()
        self.staged: Handover[tuple[BatchInFlight, StagedFile | None]] = Handover(self.stop)
        self.written: Handover[tuple[BatchInFlight, list[DataFile]]] = Handover(self.stop)
        self.held_bytes = 0
        self.begun = self.ended = 0
        self.failure: ConnectorError | None = None
        self._obstacles: dict[str, RetryableError] = {}

    @property
    def obstacle(self) -> RetryableError | None:
        """The error that the pipeline waits out at present."""
        return next(iter(self._obstacles.copy().values()), None)

    def hold(self, size: int) -> None:
        """Count so many bytes more of records that wait, or fewer."""
        with self.changed:
            self.held_bytes += size
            self.changed.notify_all()

    def begin(self, assignment: Assignment, scratch: Path) -> BatchInFlight:
        """Begin the next batch, in a new folder below this one."""
        self.begun += 1
        batch = BatchInFlight(self.begun, scratch / f"batch-{self.begun}", self.timings.clock, assignment)
        batch.folder.mkdir()
        return batch

    def end(self, batch: BatchInFlight) -> None:
        """Forget a batch that is in the lake, or dropped."""
        batch.remove()
        with self.changed:
            self.ended += 1
            self.changed.notify_all()

    def wait(self, seconds: float) -> None:
        """Wait until something has changed, or so long."""
        with self.changed:
            self.changed.wait(seconds)

    def fail(self, error: ConnectorError) -> None:
        """Give up what is under way for this reason, unless it has failed already."""
        with self.changed:
            self.failure = self.failure or error
            self.changed.notify_all()
        self.stop.set()

    def until_it_works(
        self, batch: BatchInFlight, step: Operation, work: Callable[[], _T], patience: float = OUTAGE_SECONDS
    ) -> _T:
        """Do this for the batch, again and again until it works; an answer that takes longer is an outage too."""
        system, doing = _ASKED[step]
        clock = self.timings.clock
        begin = tried = clock()

        def try_once() -> _T:
            nonlocal tried
            tried = clock()
            with self.metrics.waits.answer(step, system, doing, patience), blaming(system):
                return work()

        def on_wait(error: RetryableError | None) -> None:
            now = clock()
            self._set_obstacle(step, error, tried if now - tried > patience else now)

        try:
            return until_it_works(try_once, stop=self.stop, on_wait=on_wait, timings=self.timings)
        finally:
            now = clock()
            batch.waited += (now if now - tried > patience else tried) - begin

    def _set_obstacle(self, step: Operation, error: RetryableError | None, since: float) -> None:
        if error:
            self.metrics.failed_try(step)
            self.metrics.waits.failed(step, error, since=since)
        else:
            self.metrics.waits.over(step)
        with self.changed:
            if error:
                self._obstacles[step] = error
            else:
                self._obstacles.pop(step, None)
            self.changed.notify_all()
