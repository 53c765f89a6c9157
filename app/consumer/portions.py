"""Hands portions of records to the pipeline, and decides when one ends a batch. For the consumer's thread."""

from collections import deque
from typing import Protocol

from app.batch_limits import BatchLimits
from app.errors import ConnectorError
from app.model import Batch
from app.timings import DEFAULT, Timings


class BatchWriter(Protocol):
    """The part of the pipeline that the sink uses; see ``app.pipeline.pipeline.Pipeline``."""

    @property
    def failure(self) -> ConnectorError | None: ...
    @property
    def obstacle(self) -> ConnectorError | None: ...
    @property
    def is_idle(self) -> bool: ...
    @property
    def held_bytes(self) -> int: ...
    @property
    def closed_portion(self) -> int: ...
    def submit(self, batch: Batch) -> None: ...
    def wait_delivered(self, number: int, seconds: float) -> bool: ...
    def wait_for_change(self, seconds: float) -> None: ...


class Portions:
    """Numbers the portions, and counts the records of the batch that is gathered.

    Args:
        pipeline: writes the batches.
        limits: decide when a batch ends, and why.
        timings: the clock.

    Attributes:
        last: the number of the last portion.
        limits: as given.
    """

    def __init__(self, pipeline: BatchWriter, limits: BatchLimits, timings: Timings = DEFAULT) -> None:
        self._pipeline = pipeline
        self._clock = timings.clock
        self.limits = limits
        self.last = 0
        self._gathered: deque[tuple[int, int]] = deque()  # portions of the current batch, each with its records
        self._gathering_since = self._quiet_since = self._clock()

    @property
    def gathered_records(self) -> int:
        """Records of the current batch that the pipeline has; it may have ended a batch by itself."""
        while self._gathered and self._gathered[0][0] <= self._pipeline.closed_portion:
            self._gathered.popleft()
        return sum(records for _, records in self._gathered)

    def came(self) -> None:
        """Note that a record came."""
        self._quiet_since = self._clock()

    def reason_to_end(self, waiting_records: int, *, is_checkpoint_due: bool = False) -> str | None:
        """The reason to end the batch now, if there is one."""
        now = self._clock()
        is_writer_idle = self._pipeline.is_idle
        if not is_writer_idle:
            self._gathering_since = now
        return self.limits.after_turn(
            gathered_rows=self.gathered_records + waiting_records,
            is_writer_idle=is_writer_idle,
            is_checkpoint_due=is_checkpoint_due,
            gathered_seconds=now - self._gathering_since,
            quiet_seconds=now - self._quiet_since,
        )

    def submit(self, portion: Batch | None, reason: str | None) -> None:
        """Hand this portion to the pipeline, if there is one; with a reason, the batch ends."""
        if portion is None and reason and self.gathered_records:
            portion = Batch(self.last + 1, reason)
        if reason:
            self._gathered.clear()
            self._gathering_since = self._clock()
        elif portion:
            self._gathered.append((portion.number, portion.records))
        if portion:
            self.last = portion.number
            self._pipeline.submit(portion)
