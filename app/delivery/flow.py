"""The state that the pipeline's threads share: queues of batches, retried steps, and the pipeline's failure."""

import contextlib
import logging
import queue
import shutil
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, TypeVar

from app.delivery.assignment import Assignment
from app.delivery.batch_limits import BatchEnds
from app.delivery.runtime import Buffer, Runtime
from app.delivery.stage import Staged
from app.errors import ConnectorError
from app.formatting import counted
from app.model import DataFile, TopicPartition
from app.monitoring.metrics import STEPS, DeliveredBatch
from app.retries import Operation, Request, Stopped

logger = logging.getLogger(__name__)

_T = TypeVar("_T")
_LOOK_SECONDS = 0.2  # interval of the checks whether the pipeline is stopped
# The requests of all steps, except requests to the catalog.
SCHEMA = Request("store", "reading the table's schema", "schema")
KAFKA = Request("Kafka", "asking for the ids of the topics", "kafka")
JOURNAL = Request("store", "writing the journal", "journal")
UPLOAD = Request("store", "uploading files", "upload")
REGISTER = Request("store", "reading the journal before files are registered", "register")
_OPERATIONS: Final[Sequence[Operation]] = ("schema", "kafka", "journal", "upload", "register")


class BatchInFlight:
    """A batch in progress of one assignment. Each batch has a separate folder, and measures the time of its steps."""

    def __init__(self, number: int, folder: Path, assignment: Assignment, flow: "Flow") -> None:
        self.number = number
        self.folder = folder
        self.table = flow.table
        self.assignment = assignment
        self._flow = flow
        self._waited = 0.0  # seconds of waiting for unavailable systems; a step's time does not include them
        self.seconds: dict[str, float] = {}
        folder.mkdir()

    def end(self) -> None:
        shutil.rmtree(self.folder)
        self._flow.share.began(-1)

    def step(self, name: str, work: Callable[[], _T], asks: Request | None = None) -> _T:
        """Do the work. Retry while the system of ``asks`` fails. The step's time increases, except during waits."""
        clock = self._flow.runtime.timings.clock
        begin = clock() - self._waited
        try:
            return self.retry(asks, work) if asks else work()
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + clock() - self._waited - begin

    def retry(self, asks: Request, work: Callable[[], _T]) -> _T:
        """Do work that is part of a step, and retry it until it succeeds. The step's time excludes the waits."""

        def add_waited(seconds: float) -> None:
            self._waited += seconds

        waits = self._flow.runtime.metrics.waits
        return waits.retry(asks, work, stop=self._flow.stop, add_waited=add_waited)


@dataclass(frozen=True, slots=True)
class GatheredBatch:
    """A batch after step 2. The staged file contains the batch's rows.

    Attributes:
        last_portion: The number of the batch's last portion in the assignment; 0 before the first portion.
        ends: The last offset read from each partition.
    """

    in_flight: BatchInFlight
    staged: Staged
    reason: str
    last_portion: int
    ends: Mapping[TopicPartition, int]

    def outcome(self, stored: Sequence[DataFile], dropped: int = 0) -> DeliveredBatch:
        """Log and return the outcome. ``dropped`` is the number of files of an assignment that ended too early."""
        batch = DeliveredBatch(
            number=self.in_flight.number,
            reason=self.reason,
            rows=sum(file.rows for file in stored),
            files=len(stored),
            size=sum(file.size for file in stored),
            dead_letters=sum(each.records for each in self.staged.dead_letters),
            rescued=self.staged.rescued,
            dropped=dropped,
            seconds={step: self.in_flight.seconds[step] for step in STEPS if step in self.in_flight.seconds},
            last_files=stored,
            table=self.in_flight.table,
        )
        _log(batch)
        return batch


class Handover(Generic[_T]):
    """A queue that hands work from one thread to the next thread. After ``stop`` is set, no thread waits at the queue.

    A failure goes through the queue after the earlier batches. Therefore these batches still arrive in the lake.
    """

    def __init__(self, stop: threading.Event, maxsize: int) -> None:
        self._queue: queue.Queue[_T | ConnectorError] = queue.Queue(maxsize)
        self.on_put: Callable[[], object] = lambda: None
        self._stop = stop

    @property
    def is_empty(self) -> bool:
        return self._queue.empty()

    def put(self, item: _T | ConnectorError) -> None:
        while not self._stop.is_set():
            with contextlib.suppress(queue.Full):
                self._queue.put(item, timeout=_LOOK_SECONDS)
                self.on_put()
                return
        raise Stopped

    def get(self) -> _T:
        """Return the next item of the queue. If the item is a failure, raise it."""
        while not self._stop.is_set():
            with contextlib.suppress(queue.Empty):
                item = self._queue.get(timeout=_LOOK_SECONDS)
                if isinstance(item, ConnectorError):
                    raise item
                return item
        raise Stopped


class Flow:
    """The records that are not in the lake yet, and the errors that delay these records. Thread-safe.

    Attributes:
        begun: Number of batches begun so far.
        stored_share: Size of the last batch's files, divided by its staged file's size; ``None`` without a batch.
        failure: The error that made the connector drop all batches in progress.
    """

    def __init__(self, buffer: Buffer, runtime: Runtime) -> None:
        threads = runtime.threads
        self.buffer = buffer
        self.share = buffer.new_share()
        self.runtime = runtime
        self.table = runtime.metrics.table
        self.ends = BatchEnds(buffer.limits, runtime.timings.clock, _phase(self.table))
        self.stop = threads.new_event()  # after it is set, no thread waits any more
        self.staged: Handover[GatheredBatch] = Handover(self.stop, threads.handed_over)
        self.written: Handover[tuple[GatheredBatch, list[DataFile]]] = Handover(self.stop, threads.handed_over)
        self.begun = 0
        self.stored_share: float | None = None
        self.failure: ConnectorError | None = None

    # --- for the consumer -------------------------------------------------------------------------------------------

    @property
    def obstacle(self) -> ConnectorError | None:
        """The error of the step that is being retried."""
        return self.runtime.metrics.waits.failing(*_OPERATIONS)

    @property
    def is_topic_missing(self) -> bool:
        """Whether a batch waits for a topic that Kafka does not have. A deleted topic never returns."""
        return self.obstacle is not None and self.obstacle.system == "topic"

    @property
    def is_in_trouble(self) -> bool:
        """Whether a step is retried, or the pipeline has failed."""
        return self.obstacle is not None or self.failure is not None

    def raise_failure(self) -> None:
        if self.failure is not None:
            raise self.failure

    def wait_delivered(self, assignment: Assignment, seconds: float) -> bool:
        """Wait until lake and log contain all taken records, or never will. Return whether they contain all records."""

        def has_ended() -> bool:
            return assignment.is_delivered or assignment.is_over or self.failure is not None

        with self.buffer.changed:
            self.buffer.changed.wait_for(has_ended, seconds)
        return assignment.is_delivered

    # --- from the threads of the pipeline ---------------------------------------------------------------------------

    def begin(self, assignment: Assignment) -> BatchInFlight:
        self.begun += 1
        self.share.began(1)
        return BatchInFlight(self.begun, self.runtime.scratch / f"batch-{self.begun}", assignment, self)

    def fail(self, error: ConnectorError) -> None:
        """Drop the batches in progress because of this error. If the flow has already failed, keep the first error."""
        with self.buffer.changed:
            self.failure = self.failure or error
            self.buffer.changed.notify_all()
        self.stop.set()


def _phase(table: str) -> float:
    """Calculate a ``phase`` for ``BatchEnds`` from the table's name, so that tables use Spark at different times."""
    return zlib.crc32(table.encode()) / 2**32 if table else 1.0


def _log(batch: DeliveredBatch) -> None:
    odd = f", {batch.dead_letters:,} in the dead letter" if batch.dead_letters else ""
    odd += f", {counted(batch.rescued, 'value')} rescued" if batch.rescued else ""
    odd += f", {batch.dropped:,} files of revoked partitions dropped" if batch.dropped else ""
    logger.info(
        "%sbatch %d (%s): %s in %s, %s bytes%s; %.2f s: %s",
        batch.table and f"{batch.table}: ",
        batch.number,
        batch.reason,
        counted(batch.rows, "row"),
        counted(batch.files, "file"),
        f"{batch.size:,}",
        odd,
        sum(batch.seconds.values()),
        ", ".join(f"{step} {seconds:.2f}" for step, seconds in batch.seconds.items()),
        extra={
            "fields": {
                **({"table": batch.table} if batch.table else {}),
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
