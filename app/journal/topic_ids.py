"""Which life of its topic each partition was claimed in, and whether Kafka still has that one.

A topic that is deleted and recreated under its name has other records at the same offsets. Kafka's client does not
always notice: where the new topic already goes beyond the position, it reads on there without an error.
"""

import threading
from collections.abc import Callable, Iterable

from app.errors import RetryableError
from app.model import TopicPartition


class TopicIds:
    """Safe from any thread.

    Args:
        ask: the id of a topic's present life, empty where the broker does not tell; may raise ``ConnectorError``.
    """

    def __init__(self, ask: Callable[[str], str]) -> None:
        self._ask = ask
        self._claimed: dict[TopicPartition, str] = {}
        self._lock = threading.Lock()

    def claimed(self, tp: TopicPartition, topic_id: str) -> None:
        """The partition was claimed while its topic had this id; empty where the broker did not tell."""
        with self._lock:
            self._claimed[tp] = topic_id

    def was_claimed(self, tp: TopicPartition) -> bool:
        """Whether this process has ever claimed the partition."""
        return tp in self._claimed

    def of(self, tp: TopicPartition) -> str:
        """The id that the topic had when the partition was claimed; empty where that is not known."""
        return self._claimed.get(tp, "")

    def is_same(self, tp: TopicPartition) -> bool | None:
        """Whether the topic is the one that was there when this partition was claimed; ``None`` if Kafka tells not.

        Raises:
            ConnectorError: Kafka does not answer, or refuses to.
        """
        before = self.of(tp)
        now = self._ask(tp.topic) if before else ""
        return now == before if now and before else None

    def recreated(self, tps: Iterable[TopicPartition]) -> RetryableError | None:
        """The error to end with where a topic is not the one any more that was there when a partition was claimed.

        Each topic is asked for once. What was read before this call began is of the claimed topic where this returns
        ``None``, for an id never comes back.

        Raises:
            ConnectorError: as for ``is_same``.
        """
        now: dict[str, str] = {}
        for tp in tps:
            before = self.of(tp)
            if before and tp.topic not in now:
                now[tp.topic] = self._ask(tp.topic)
            if before and now[tp.topic] and now[tp.topic] != before:
                return recreated_error(tp, f"it has the id {now[tp.topic]}, and had {before} when it was claimed")
        return None


def recreated_error(tp: TopicPartition, cause: str) -> RetryableError:
    """The error to end with: the next claim finds the new topic and begins with its first record."""
    hint = (
        "The next start finds out and goes on from the right place. Records that were read and are not in the table "
        "yet are not written, for nothing tells which of the two topics they are from"
    )
    return RetryableError(f"consuming {tp}", f"{cause}: the topic was made anew", hint)
