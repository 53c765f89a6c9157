"""Bounds how often a member claims its partitions again after another one has closed its log."""

from collections import deque

from app.errors import RetryableError
from app.timings import Timings

_MOST = 3  # in ``Timings.claim_again_seconds``


class Reclaiming:
    """Notes each claim that ``may_again`` allows: two members of different clusters would do it for ever in turn."""

    def __init__(self, timings: Timings) -> None:
        self._timings = timings
        self._at: deque[float] = deque(maxlen=_MOST)

    def may_again(self) -> bool:
        now = self._timings.clock()
        if len(self._at) == _MOST and now - self._at[0] <= self._timings.claim_again_seconds:
            return False
        self._at.append(now)
        return True


def taken_over(reason: str) -> RetryableError:
    """The error to end with where Kafka goes on to assign partitions that another member has claimed."""
    return RetryableError(
        "writing a partition's rows",
        reason,
        "If no other connector uses this consumer group and table, a restart sets it right; nothing is lost",
    )
