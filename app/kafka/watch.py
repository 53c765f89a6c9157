"""Checks that topic and consumer group have not changed since partitions were claimed.

A recreated topic has different records at the same offsets. Kafka's client does not always notice a recreated topic. If
the new topic already has the next offset, the client continues without an error. Therefore the connector keeps the ids
of topics (``TopicIds``), and queries Kafka for the ids regularly (``KafkaWatch``).
"""

import logging
import threading
from collections.abc import Callable, Iterable, Sequence

from app.errors import ConnectorError, RetryableError
from app.model import TopicPartition

logger = logging.getLogger(__name__)

_ZERO_ID = "A" * 22  # sixteen zero bytes in Kafka's encoding, from a broker without ids


def known_id(text: str | None) -> str:
    """Return Kafka's id of a topic or a cluster; empty for the zero id, which means that there is no id."""
    return text if text and text != _ZERO_ID else ""


def ids_differ(first: str, second: str) -> bool:
    """Whether two ids of topics or clusters are known and different."""
    return bool(first and second and first != second)


class TopicIds:
    """Keeps the topic's id of each claimed partition, and compares it with Kafka's current id. Thread-safe.

    An id is empty if the broker does not report ids.
    """

    def __init__(self, ask: Callable[[str], str]) -> None:
        self._ask = ask
        self._claimed: dict[TopicPartition, str] = {}

    def claimed(self, tp: TopicPartition, topic_id: str) -> None:
        self._claimed[tp] = topic_id

    def was_claimed(self, tp: TopicPartition) -> bool:
        return tp in self._claimed

    def recreated(self, tps: Iterable[TopicPartition]) -> RetryableError | None:
        """Return the error for a topic that was recreated after its partition was claimed; otherwise ``None``.

        Each topic is queried once. If the result is ``None``, all records read before the call belong to the claimed
        topic, because Kafka never uses an id again.
        """
        now: dict[str, str] = {}
        for tp in tps:
            before = self._claimed.get(tp, "")
            if before and tp.topic not in now:
                now[tp.topic] = self._ask(tp.topic)
            if before and ids_differ(before, now[tp.topic]):
                return recreated_error(tp, f"it has the id {now[tp.topic]}, and had {before} when it was claimed")
        return None


def recreated_error(tp: TopicPartition, cause: str) -> RetryableError:
    """Return the error for a recreated topic. The next claim begins with the first record of the new topic."""
    hint = (
        "The next start detects this and continues at the right offset. Records that were read and are not in the "
        "table yet are not written, because they may be from either topic"
    )
    error = RetryableError(f"consuming {tp}", f"{cause}: the topic was recreated", hint)
    error.topic = tp.topic
    return error


class KafkaWatch:
    """Queries Kafka regularly after ``start()``. If a query has found an error, no query runs until it is taken.

    Each query returns the error, or ``None``. A query that raises is repeated. The thread is separate, because an
    answer may take long.
    """

    def __init__(self, queries: Sequence[Callable[[], ConnectorError | None]] = (), seconds: float = 20.0) -> None:
        self._queries = queries
        self._seconds = seconds
        self._error: ConnectorError | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread if a query exists and the thread has not started yet. Not thread-safe."""
        if self._queries and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="kafka-watch", daemon=True)
            self._thread.start()

    def take_found(self) -> ConnectorError | None:
        error, self._error = self._error, None
        return error

    def stop(self) -> None:
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.wait(self._seconds):
            for query in self._queries:
                try:
                    self._error = self._error or query()
                except ConnectorError as error:
                    logger.debug("%s. Asking again", error)
                except Exception as error:
                    logger.warning("watching topic and group: %r. Please report this as a bug", error, exc_info=True)
