"""Assignments whose partition turned out to be written by another member."""

from collections.abc import Callable, Collection

from quixstreams.sinks import SinkBackpressureError

from app.errors import RetryableError

# Whoever loses a partition's journal learns from Kafka soon that the partition is gone too; if not, something is wrong.
_PATIENCE_SECONDS = 20.0


class Fences:
    """Remembers them by their tokens; safe from any thread.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._reasons: dict[str, tuple[str, float]] = {}

    def add(self, token: str, reason: str) -> None:
        """The assignment with this token must not write any more."""
        self._reasons[token] = reason, self._clock()

    def any_of(self, owners: Collection[str]) -> bool:
        """Whether one of these assignments must not write any more."""
        return bool(self._of(owners))

    def refuse_flush(self, owners: Collection[str], pause_seconds: float | None) -> None:
        """Let no offsets be committed while rows were dropped of a partition that Kafka says is ours.

        Args:
            owners: the tokens of the present assignments.
            pause_seconds: for how long to pause; ``None`` where nothing can be paused.

        Raises:
            SinkBackpressureError, RetryableError: a present assignment is fenced.
        """
        for reason, _ in self._of(owners):
            raise SinkBackpressureError(retry_after=pause_seconds) if pause_seconds else _taken_over(reason)

    def end_if_lasting(self, owners: Collection[str]) -> None:
        """Give up when Kafka still says after a while that a fenced partition is ours.

        Raises:
            RetryableError: so it is.
        """
        for reason, since in self._of(owners):
            if self._clock() - since > _PATIENCE_SECONDS:
                raise _taken_over(reason)

    def _of(self, owners: Collection[str]) -> list[tuple[str, float]]:
        return [what for token, what in tuple(self._reasons.items()) if token in owners] if self._reasons else []


def _taken_over(reason: str) -> RetryableError:
    return RetryableError(
        "writing a partition's rows",
        reason,
        "If no other connector uses this consumer group and table, a restart sets it right; nothing is lost",
    )
