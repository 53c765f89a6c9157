"""A batch on its way through the pipeline, and how one thread hands it to the next."""

import logging
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from app.formatting import counted
from app.model import Batch, BatchPart, StoredFile, TopicPartition
from app.monitoring.metrics import DeliveredBatch, DeliveredFile
from app.monitoring.waits import Stopped
from app.pipeline.upload import UploadItem

logger = logging.getLogger(__name__)

_T = TypeVar("_T")


class Handover(Generic[_T]):
    """Hands work from one thread to the next: a queue of one, whose waiting ends when ``stop`` is set."""

    def __init__(self, stop: threading.Event) -> None:
        self._queue: queue.Queue[_T] = queue.Queue(maxsize=1)
        self._stop = stop

    @property
    def is_empty(self) -> bool:
        return self._queue.empty()

    def put(self, item: _T) -> None:
        while True:
            if self._stop.is_set():
                raise Stopped
            try:
                return self._queue.put(item, timeout=0.2)
            except queue.Full:
                continue

    def get(self) -> _T:
        while True:
            if self._stop.is_set():
                raise Stopped
            try:
                return self._queue.get(timeout=0.2)
            except queue.Empty:
                continue


@dataclass(slots=True)
class BatchInFlight:
    """A batch on its way; its rows are dropped after step 2.

    ``number`` counts the batches, ``clock`` gives monotonic seconds, ``last_portion`` is the number of the last portion
    in it. ``waited`` are the seconds that it has waited for other systems that were away: they are no part of a step's
    time. ``owner`` is the token of its generation, empty before there is anything of one, and ``ends`` are the last
    offsets that were read.
    """

    number: int
    folder: Path
    clock: Callable[[], float]
    last_portion: int = 0
    reason: str = ""
    owner: str = ""
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    parts: Sequence[BatchPart] = ()
    dead_letters: list[UploadItem] = field(default_factory=list)
    rejected: int = 0
    rescued: int = 0
    waited: float = 0.0
    seconds: dict[str, float] = field(default_factory=dict)

    def is_of_owner(self, portion: Batch) -> bool:
        """Whether the portion is of the same generation as those before."""
        return not (self.owner and portion.owner) or self.owner == portion.owner

    def add(self, portion: Batch) -> None:
        """Note that the portion is in the batch."""
        self.last_portion = portion.number
        self.owner = self.owner or portion.owner
        self.ends |= portion.ends

    def timed(self, step: str, work: Callable[[], _T]) -> _T:
        """Do the work and note how long it took, together with what the step took before."""
        begin = self.clock() - self.waited
        try:
            return work()
        finally:
            self.seconds[step] = self.seconds.get(step, 0.0) + self.clock() - self.waited - begin

    def delivered(self, stored: Sequence[StoredFile], dropped: int) -> DeliveredBatch:
        """Returns the outcome of the batch, and logs it in one line.

        Args:
            stored: its files in the lake.
            dropped: the number of its files that were not registered, because its generation had ended.
        """
        batch = DeliveredBatch(
            number=self.number,
            reason=self.reason,
            rows=sum(file.rows for file in stored),
            files=len(stored),
            size=sum(file.size for file in stored),
            dead_letters=self.rejected,
            rescued=self.rescued,
            dropped=dropped,
            seconds=self.seconds,
            last_files=[DeliveredFile(file.key, file.rows, file.size) for file in stored],
        )
        _log(batch)
        return batch


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
