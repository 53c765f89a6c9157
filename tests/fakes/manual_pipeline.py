"""A pipeline that does what a test says: batches are delivered by hand, and waiting costs no time but the clock's."""

from collections.abc import Callable

from app.errors import ConnectorError, RetryableError
from app.model import Batch
from tests.fakes.clock import Clock


class ManualPipeline:
    """What the sink sees of a pipeline.

    Args:
        clock: moved on by each wait.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.batches: list[Batch] = []
        self.delivered = 0
        self.is_idle = True
        self.closed_portion = 0
        self.held_bytes = 0
        self.failure: ConnectorError | None = None
        self.obstacle: RetryableError | None = None
        self.on_wait: Callable[[], None] = lambda: None
        self.waits = 0

    def submit(self, batch: Batch) -> None:
        self.batches.append(batch)

    def wait_delivered(self, number: int, seconds: float) -> bool:
        if self.delivered < number and self.failure is None and seconds:
            self.waits += 1
            self._clock.advance(seconds)
            self.on_wait()
        return self.delivered >= number

    def wait_for_change(self, seconds: float) -> None:
        self.wait_delivered(len(self.batches), seconds)

    def deliver_all(self) -> None:
        self.delivered = len(self.batches)
