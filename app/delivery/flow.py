"""What the threads of the pipeline have in common: the batches between them, what they wait for, and their failure."""

import contextlib
import queue
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Generic, TypeVar

from app.delivery.assignment import Assignment
from app.delivery.in_flight import BatchInFlight
from app.errors import ConnectorError
from app.model import DataFile, StagedFile
from app.monitoring.metrics import Metrics
from app.monitoring.waits import OUTAGE_SECONDS, Operation, Request, Stopped
from app.timings import DEFAULT, Timings

_T = TypeVar("_T")
_LOOK_SECONDS = 0.2  # between two checks whether the pipeline is stopped
_REQUESTS: Mapping[Operation, Request] = {
    "schema": Request("store", "reading the table's schema", "schema"),
    "kafka": Request("Kafka", "asking for the ids of the topics", "kafka"),
    "journal": Request("store", "writing the journal", "journal"),
    "upload": Request("store", "uploading files", "upload"),
    "register": Request("store", "reading the journal before files are registered", "register"),
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
        while not self._stop.is_set():
            with contextlib.suppress(queue.Full):
                return self._queue.put(item, timeout=_LOOK_SECONDS)
        raise Stopped

    def get(self) -> _T:
        """The next item; raises a failure."""
        while not self._stop.is_set():
            with contextlib.suppress(queue.Empty):
                item = self._queue.get(timeout=_LOOK_SECONDS)
                if isinstance(item, ConnectorError):
                    raise item
                return item
        raise Stopped


class Flow:
    """What the threads share. Thread-safe."""

    def __init__(self, metrics: Metrics | None = None, timings: Timings = DEFAULT) -> None:
        self.metrics = metrics or Metrics(timings=timings)
        self.timings = timings
        self.stop = threading.Event()  # ends all waiting
        self.changed = threading.Condition()  # a batch has come a step further, or something is waited for
        self.staged: Handover[tuple[BatchInFlight, StagedFile | None]] = Handover(self.stop)
        self.written: Handover[tuple[BatchInFlight, list[DataFile]]] = Handover(self.stop)
        self.held_bytes = 0  # of the records that wait for their conversion
        self.begun = self.ended = 0  # batches
        self.failure: ConnectorError | None = None

    @property
    def obstacle(self) -> ConnectorError | None:
        """The error that the pipeline waits out at present."""
        return self.metrics.waits.failing(*_REQUESTS)

    def hold(self, size: int) -> None:
        """Count so many bytes more of records that wait, or fewer."""
        with self.changed:
            self.held_bytes += size
            self.changed.notify_all()

    def begin(self, assignment: Assignment, scratch: Path) -> BatchInFlight:
        self.begun += 1
        batch = BatchInFlight(self.begun, scratch / f"batch-{self.begun}", self.timings.clock, assignment)
        batch.folder.mkdir()
        return batch

    def end(self, batch: BatchInFlight) -> None:
        batch.remove()
        with self.changed:
            self.ended += 1
            self.changed.notify_all()

    def wait(self, seconds: float) -> None:
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

        def add_waited(seconds: float) -> None:
            batch.waited += seconds

        request = replace(_REQUESTS[step], patience=patience)
        return self.metrics.waits.retry(request, work, stop=self.stop, add_waited=add_waited)
