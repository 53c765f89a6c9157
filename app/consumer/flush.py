"""How long a flush waits for its batches to reach the lake, and what it does when they do not."""

from collections.abc import Callable
from typing import Protocol

from quixstreams.sinks import SinkBackpressureError

from app.errors import ConnectorError, RetryableError

# How long consuming pauses when the destination does not take batches; the pipeline itself keeps trying meanwhile.
_PAUSE_SECONDS = 5.0
_PATIENCE_SECONDS = 3.0  # a hiccup shorter than this is not worth a pause
_LOOK_SECONDS = 0.25  # between two looks at what else may have happened to the pipeline


class Delivering(Protocol):
    """What is asked of the pipeline."""

    @property
    def failure(self) -> ConnectorError | None: ...
    @property
    def obstacle(self) -> RetryableError | None: ...
    def wait_delivered(self, number: int, seconds: float) -> bool: ...


class FlushWait:
    """Waits in short pieces.

    Args:
        flush_seconds: deadline of a flush at a checkpoint.
        revoke_seconds: deadline of a flush while partitions are being revoked.
        stop_seconds: deadline of the last flush, after a signal to stop.
        clock: monotonic seconds.
    """

    def __init__(
        self, *, flush_seconds: float, revoke_seconds: float, stop_seconds: float, clock: Callable[[], float]
    ) -> None:
        self._flush_seconds = flush_seconds
        self._revoke_seconds = revoke_seconds
        self._stop_seconds = stop_seconds
        self._clock = clock
        self._stop_deadline: float | None = None

    def stopping(self) -> None:
        """The process is asked to stop: the flush that runs or comes gets the shorter deadline."""
        self._stop_deadline = self._clock() + self._stop_seconds

    def pause_seconds(self, *, revoking: bool) -> float | None:
        """For how long consuming may be paused now; ``None`` where it cannot be."""
        return None if revoking or self._stop_deadline is not None else _PAUSE_SECONDS

    def until_delivered(self, pipeline: Delivering, last_batch: int, *, revoking: bool) -> None:
        """Wait until all batches up to this one are in the lake.

        Raises:
            SinkBackpressureError: they do not get there now, and consuming can be paused.
            RetryableError: the same where it cannot.
            ConnectorError: the pipeline failed for good.
        """
        begin = self._clock()
        obstructed_since: float | None = None
        while not pipeline.wait_delivered(last_batch, _LOOK_SECONDS):
            if pipeline.failure is not None:
                raise pipeline.failure
            now = self._clock()
            if pipeline.obstacle is None:
                obstructed_since = None
            elif obstructed_since is None:
                obstructed_since = now
            stuck = obstructed_since is not None and now - obstructed_since > _PATIENCE_SECONDS
            overdue = now >= self._deadline(begin, revoking=revoking)
            pause_seconds = self.pause_seconds(revoking=revoking)
            if pause_seconds and (stuck or overdue):
                raise SinkBackpressureError(retry_after=pause_seconds)
            if overdue:
                raise _out_of_time(pipeline.obstacle, revoking=revoking)
        if pipeline.failure is not None:
            raise pipeline.failure

    def _deadline(self, begin: float, *, revoking: bool) -> float:
        own = begin + (self._revoke_seconds if revoking else self._flush_seconds)
        return own if self._stop_deadline is None else min(own, self._stop_deadline)


def _out_of_time(obstacle: RetryableError | None, *, revoking: bool) -> RetryableError:
    return RetryableError(
        "writing the last rows before " + ("the partitions are given away" if revoking else "the process ends"),
        str(obstacle) if obstacle else "the pipeline did not finish in time",
        "Their offsets are not committed: the next owner of the partitions reads them again",
    )
