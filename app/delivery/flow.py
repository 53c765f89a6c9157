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
from app.delivery.limits import BatchEnds, BatchLimits
from app.delivery.runtime import Runtime
from app.errors import ConnectorError
from app.formatting import counted
from app.model import BatchPart, DataFile, LocalObject, StagedFile, TopicPartition
from app.monitoring.metrics import DeliveredBatch, DeliveredFile
from app.monitoring.waits import OUTAGE_SECONDS, Operation, Request, Stopped

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
    """Hands work from one thread to the next by a queue, whose waiting ends when ``stop`` is set.

    A failure goes the way of the batches, so that those before it still arrive.
    """

    def __init__(self, stop: threading.Event, maxsize: int) -> None:
        self._queue: queue.Queue[_T | ConnectorError] = queue.Queue(maxsize)
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
    """What is taken and not in the lake yet, and what keeps it from there. Thread-safe.

    Attributes:
        changed: a batch has come a step further, or something is waited for.
        held_bytes: of the records that wait for their conversion.
        begun, ended: how many batches have.
        stored_share: the size of the last batch's files by that of its staged file; ``None`` before the first batch.
        failure: what gave up all that is under way.
    """

    def __init__(self, limits: BatchLimits, runtime: Runtime) -> None:
        threads = runtime.threads
        self.limits = limits
        self.runtime = runtime
        self.ends = BatchEnds(limits, runtime.timings.clock)
        self.stop = threads.new_event()  # ends all waiting
        self.changed = threads.new_condition()
        self.staged: Handover[tuple[BatchInFlight, StagedFile | None]] = Handover(self.stop, threads.handed_over)
        self.written: Handover[tuple[BatchInFlight, list[DataFile]]] = Handover(self.stop, threads.handed_over)
        self.held_bytes = 0
        self.begun = self.ended = 0
        self.stored_share: float | None = None
        self.failure: ConnectorError | None = None

    # --- asked by the consumer --------------------------------------------------------------------------------------

    @property
    def room(self) -> int:
        """Bytes of records that may be taken before the buffer is full."""
        return self.limits.max_buffer_bytes - self.held_bytes

    @property
    def is_full(self) -> bool:
        return self.limits.is_full(self.held_bytes)

    @property
    def flush_reason(self) -> str:
        return self.limits.at_flush(self.held_bytes)

    @property
    def under_way(self) -> int:
        """The number of batches that have begun and are not in the lake yet."""
        return self.begun - self.ended

    @property
    def obstacle(self) -> ConnectorError | None:
        """The error that is waited out at present."""
        return self.runtime.metrics.waits.failing(*_REQUESTS)

    @property
    def is_in_trouble(self) -> bool:
        """Whether another system is waited for, or all has failed."""
        return self.obstacle is not None or self.failure is not None

    def raise_failure(self) -> None:
        if self.failure is not None:
            raise self.failure

    def wait_delivered(self, assignment: Assignment, seconds: float) -> bool:
        """Whether all that was taken is in lake and log; waits for it, unless it cannot be any more."""

        def has_ended() -> bool:
            return assignment.is_delivered or assignment.is_over or self.failure is not None

        with self.changed:
            self.changed.wait_for(has_ended, seconds)
        return assignment.is_delivered

    def wait(self, seconds: float) -> None:
        with self.changed:
            self.changed.wait(seconds)

    # --- from the threads of the pipeline ---------------------------------------------------------------------------

    def hold(self, size: int) -> None:
        """Count so many bytes more of records that wait, or fewer."""
        with self.changed:
            self.held_bytes += size
            self.changed.notify_all()

    def begin(self, assignment: Assignment) -> BatchInFlight:
        self.begun += 1
        folder = self.runtime.scratch / f"batch-{self.begun}"
        batch = BatchInFlight(self.begun, folder, self.runtime.timings.clock, assignment)
        batch.folder.mkdir()
        return batch

    def end(self, batch: BatchInFlight) -> None:
        batch.remove()
        with self.changed:
            self.ended += 1
            self.changed.notify_all()

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
        return self.runtime.metrics.waits.retry(request, work, stop=self.stop, add_waited=add_waited)


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
