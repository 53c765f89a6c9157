"""Whether what a partition has to say can be heard right now."""

from collections.abc import Callable
from typing import Any

from app.model import TopicPartition


class Listening:
    """Asks the consumer; for its thread.

    A Kafka that is away is noticed when the client says so. That it is back shows with the next message or, where none
    comes, with the client's statistics: every 30 seconds.

    Args:
        consumer: of quixstreams.
        waits: whether a partition is not to be read yet.
    """

    def __init__(self, consumer: Any, waits: Callable[[TopicPartition], bool]) -> None:
        self._consumer = consumer
        self._waits = waits
        self._away_since: float | None = None

    def __call__(self, tp: TopicPartition) -> bool:
        """Whether the partition is being consumed: claimed, not paused, from a Kafka that is there."""
        return not self._consumer.backpressured_tps and not self._waits(tp) and self._is_broker_there()

    def _is_broker_there(self) -> bool:
        since = self._consumer._broker_unavailable_since
        if since is None:
            return True
        if since != self._away_since:
            self._away_since = since
            self._consumer._broker_states.clear()  # those are of before: only what comes now counts
        if "UP" in self._consumer._broker_states.values():
            self._consumer._broker_available()
            return True
        return False
