"""A batch on its way through the pipeline."""

import logging
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from app.delivery.assignment import Assignment
from app.formatting import counted
from app.model import BatchPart, DataFile, LocalObject, TopicPartition
from app.monitoring.metrics import DeliveredBatch, DeliveredFile

logger = logging.getLogger(__name__)

_T = TypeVar("_T")


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
