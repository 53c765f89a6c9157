"""Waits at a flush until its batches are in the lake; asks for a pause, or gives up, if that takes too long."""

from typing import Protocol

from quixstreams.sinks import SinkBackpressureError

from app.errors import ConnectorError, RetryableError
from app.model import Batch
from app.timings import Timings


class BatchWriter(Protocol):
    """The part of the pipeline that the sink uses; see ``app.pipeline.pipeline.Pipeline``."""

    @property
    def failure(self) -> ConnectorError | None: ...
    @property
    def obstacle(self) -> RetryableError | None: ...
    @property
    def is_idle(self) -> bool: ...
    @property
    def held_bytes(self) -> int: ...
    @property
    def closed_portion(self) -> int: ...
    def submit(self, batch: Batch) -> None: ...
    def wait_delivered(self, number: int, seconds: float) -> bool: ...
    def wait_for_change(self, seconds: float) -> None: ...


class FlushWait:
    """Waits in short steps, and checks the pipeline for errors after each.

    Args:
        timings: the deadlines, and how long to pause.
    """

    def __init__(self, timings: Timings) -> None:
        self._timings = timings
        self._clock = timings.clock
        self._stop_deadline: float | None = None

    def stopping(self) -> None:
        """Give the shorter deadline to the flush that runs or comes next: the process was asked to stop."""
        self._stop_deadline = self._clock() + self._timings.stop_seconds

    def pause_seconds(self, *, revoking: bool) -> float | None:
        """For how long consuming may be paused now; ``None`` where pausing is impossible."""
        return None if revoking or self._stop_deadline is not None else self._timings.pause_seconds

    def until_delivered(self, pipeline: BatchWriter, last_batch: int, *, revoking: bool) -> None:
        """Wait until all batches up to this one are in the lake.

        Raises:
            SinkBackpressureError: the store or the catalog is away, and consuming can be paused.
            RetryableError: the same, and consuming cannot be paused.
            ConnectorError: the pipeline failed with an error that no retry corrects.
        """
        begin = self._clock()
        obstructed_since: float | None = None
        while not pipeline.wait_delivered(last_batch, self._timings.look_seconds):
            if pipeline.failure is not None:
                raise pipeline.failure
            now = self._clock()
            if pipeline.obstacle is None:
                obstructed_since = None
            elif obstructed_since is None:
                obstructed_since = now
            stuck = obstructed_since is not None and now - obstructed_since > self._timings.hiccup_seconds
            overdue = now >= self._deadline(begin, revoking=revoking)
            pause_seconds = self.pause_seconds(revoking=revoking)
            if pause_seconds and (stuck or overdue):
                raise SinkBackpressureError(retry_after=pause_seconds)
            if overdue:
                raise _out_of_time(pipeline.obstacle, revoking=revoking)
        if pipeline.failure is not None:
            raise pipeline.failure

    def _deadline(self, begin: float, *, revoking: bool) -> float:
        own = begin + (self._timings.revoke_seconds if revoking else self._timings.flush_seconds)
        return own if self._stop_deadline is None else min(own, self._stop_deadline)


def _out_of_time(obstacle: RetryableError | None, *, revoking: bool) -> RetryableError:
    return RetryableError(
        "writing the last rows before " + ("the partitions are given away" if revoking else "the process ends"),
        str(obstacle) if obstacle else "the pipeline did not finish in time",
        "Their offsets are not committed: the next owner of the partitions reads them again",
    )
