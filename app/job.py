"""A batch on its way through the pipeline."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from app.delivery import Parcel
from app.model import BatchPart, StoredFile

logger = logging.getLogger(__name__)

_T = TypeVar("_T")


@dataclass(slots=True)
class Job:
    """What is known of a batch; the rows themselves are left behind after step 2."""

    number: int
    reason: str
    parts: Sequence[BatchPart]
    folder: Path
    dead_letters: list[Parcel] = field(default_factory=list)
    rejected: int = 0
    rescued: int = 0
    seconds: dict[str, float] = field(default_factory=dict)

    def timed(self, step: str, work: Callable[[], _T]) -> _T:
        """Do the work and note how long it took."""
        begin = time.perf_counter()
        try:
            return work()
        finally:
            self.seconds[step] = time.perf_counter() - begin

    def log(self, stored: Sequence[StoredFile]) -> None:
        """Tell in one line what became of the batch."""
        size = sum(file.size for file in stored)
        rows = sum(file.rows for file in stored)
        odd = f", {self.rejected:,} in the dead letter" if self.rejected else ""
        odd += f", {self.rescued:,} values rescued" if self.rescued else ""
        logger.info(
            "batch %d (%s): %s rows in %s files, %s bytes%s; %.2f s: %s",
            self.number,
            self.reason,
            f"{rows:,}",
            f"{len(stored):,}",
            f"{size:,}",
            odd,
            sum(self.seconds.values()),
            ", ".join(f"{step} {seconds:.2f}" for step, seconds in self.seconds.items()),
        )
