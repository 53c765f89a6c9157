"""What the threads of the pipeline have in common: the batches between them, what they wait for, and their failure."""

import contextlib
import logging
import queue
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Generic, TypeVar

from app.delivery.assignment import Assignment
from app.errors import ConnectorError
from app.formatting import counted
from app.model import BatchPart, DataFile, LocalObject, StagedFile, TopicPartition
from app.monitoring.metrics import DeliveredBatch, DeliveredFile, Metrics
from app.monitoring.waits import OUTAGE_SECONDS, Operation, Request, Stopped
from app.timings import DEFAULT, Timings

logger = logging.getLogger(__name__)

_T = TypeVar("_T")
_LOOK_SECONDS = 0.2  # between two checks whether the pipeline is stopped
_REQUESTS: Mapping[Operation, Request] = {
    "schema": Request("store", "reading the table's schema", "schema"),
    "kafka": Request("Kafka", "asking for the ids of the topics", "kafka"),
    "journal": Request("store", "writing the journal", "journal"),
    "upload": Request("store", "uploading files", "upload"),
    "register": Request("store", "reading the journal before files are registered", "register"),
}


@dataclass(slots=True)
class BatchInFlight:
    """A batch on its way; its rows are dropped after step 2."""

    number: int  # counts the batches
    folder: Path
    clock: Callable[[], float]  # monotonic seconds
    assignment: Assignment  # of all its records
    last_portion: int = 0  # the assignment's number of the last portion in it, 0 before the first
    reason: str = ""
    ends: dict[TopicPartition, int] = field(default_factory=dict)  # the last offsets that were read
    parts: Sequence[BatchPart] = ()
    dead_letters: list[LocalObject] = field(default_factory=list)
    rescued: int = 0
    waited: float = 0.0  # seconds for systems that were away: no part of a step's time
    seconds: dict[str, float] = field(default_factory=dict)

    def remove(self) -> None:
        shutil.rmtree(self.folder)

    def timed(self, step: str, work: Callable[[], _T]) -> _T:
        """Do the work and note how long it took, together with what the step took before."""
        begin = self.clock() - self.waited
        try:
            return work()
        finally:
            self.seconds[step] = self.seconds.get(step, 0.0) + self.clock() - self.waited - begin

    def delivered(self, stored: Sequence[DataFile], dropped: int) -> DeliveredBatch:
        """Returns the outcome, and logs it; ``dropped`` files were not registered: the generation had ended."""
        batch = DeliveredBatch(
            number=self.number,
            reason=self.reason,
            rows=sum(file.rows for file in stored),
            files=len(stored),
            size=sum(file.size for file in stored),
            dead_letters=sum(each.records for each in self.dead_letters),
            rescued=self.rescued,
            dropped=dropped,
            seconds=self.seconds,
            last_files=[DeliveredFile(file.key, file.rows, file.size) for file in stored],
        )
        _log(batch)
        return batch


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


def _log(batch: DeliveredBatch) -> None:
    odd = f", {batch.dead_letters:,} in the dead letter" if batch.dead_letters else ""
    odd += f", {counted(batch.rescued, 'value')} rescued" if batch.rescued else ""
    odd += f", {batch.dropped:,} files of revoked partitions dropped" if batch.dropped else ""
    logger.info(
        "batch %d (%s): %s rows in %s files, %s bytes%s; %.2f s: %s",
        batch.number,
        batch.reason,
        f"{batch.rows:,}",
        f"{batch.files:,}",
        f"{batch.size:,}",
        odd,
        sum(batch.seconds.values()),
        ", ".join(f"{step} {seconds:.2f}" for step, seconds in batch.seconds.items()),
        extra={
            "fields": {
                "batch": batch.number,
                "reason": batch.reason,
                "rows": batch.rows,
                "files": batch.files,
                "bytes": batch.size,
                "dead_letters": batch.dead_letters,
                "rescued": batch.rescued,
                "dropped_files": batch.dropped,
                "seconds": {step: round(seconds, 3) for step, seconds in batch.seconds.items()},
            }
        },
    )
