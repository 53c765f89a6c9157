"""Checks that topic and consumer group are still those in which partitions were claimed.

A topic that is deleted and recreated under its name has other records at the same offsets. Kafka's client does not
always notice it: if the new topic already has the next offset, the client reads on without an error. So the connector
keeps the ids of topics (``TopicIds``), and asks Kafka for them regularly (``KafkaWatch``).
"""

import logging
import threading
from collections.abc import Callable, Iterable, Sequence

from app.errors import ConnectorError, RetryableError
from app.model import TopicPartition

logger = logging.getLogger(__name__)

_ZERO_ID = "A" * 22  # sixteen bytes of zero in Kafka's spelling, from a broker without ids


def known_id(text: str | None) -> str:
    """The id of a topic or a cluster from Kafka; empty for the zero id, which means none."""
    return text if text and text != _ZERO_ID else ""


def ids_differ(one: str, other: str) -> bool:
    """Whether two ids of topics or clusters are known and different."""
    return bool(one and other and one != other)


class TopicIds:
    """Keeps the topic's id of each claimed partition, and compares it with Kafka's current one. Thread-safe.

    An id is empty if the broker does not give it.
    """

    def __init__(self, ask: Callable[[str], str]) -> None:
        self._ask = ask
        self._claimed: dict[TopicPartition, str] = {}

    def claimed(self, tp: TopicPartition, topic_id: str) -> None:
        self._claimed[tp] = topic_id

    def was_claimed(self, tp: TopicPartition) -> bool:
        """Whether this process has ever claimed the partition."""
        return tp in self._claimed

    def recreated(self, tps: Iterable[TopicPartition]) -> RetryableError | None:
        """The error for a topic that was recreated since one of these partitions was claimed; ``None`` if none was.

        Asks for each topic once. If this returns ``None``, all records read before the call are of the claimed topic,
        because an id never comes back.
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
    """The error to end with: the next claim finds the new topic and begins with its first record."""
    hint = (
        "The next start finds out and goes on from the right place. Records that were read and are not in the table "
        "yet are not written, because they may be from either topic"
    )
    error = RetryableError(f"consuming {tp}", f"{cause}: the topic was recreated", hint)
    error.topic = tp.topic
    return error


class KafkaWatch:
    """Asks Kafka regularly after ``start()``, but not while an answer that is an error waits to be taken.

    Each question returns the error, or ``None``; it is asked again if it raises. The thread is its own,
    because an answer may take long and the consumer's loop must not wait for it.
    """

    def __init__(self, questions: Sequence[Callable[[], ConnectorError | None]] = (), seconds: float = 20.0) -> None:
        self._questions = questions
        self._seconds = seconds
        self._found: ConnectorError | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to ask, if there is a question and it has not begun yet; not thread-safe."""
        if self._questions and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="kafka-watch", daemon=True)
            self._thread.start()

    def take_found(self) -> ConnectorError | None:
        found, self._found = self._found, None
        return found

    def stop(self) -> None:
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.wait(self._seconds):
            for question in self._questions:
                self._found = self._found or _answer(question)


def _answer(question: Callable[[], ConnectorError | None]) -> ConnectorError | None:
    try:
        return question()
    except ConnectorError as error:
        logger.debug("%s. It is asked again", error)
    except Exception as error:
        logger.warning("watching topic and group: %r. Please report this as a bug", error, exc_info=True)
    return None
