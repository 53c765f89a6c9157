"""Asks Kafka where a topic-partition stands: the group's offset, what is there, and which topic it is."""

from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka import TopicPartition as KafkaTopicPartition
from confluent_kafka.admin import AdminClient

from app.errors import RetryableError
from app.model import TopicPartition
from app.start_position import KafkaPosition

_ANSWER_SECONDS = 20.0


class KafkaPositions:
    """Asks with a consumer of its own, which never subscribes, so that closing the other one cannot disturb it.

    Args:
        consumer: of the same group.
        admin: describes topics.
    """

    def __init__(self, consumer: Any, admin: AdminClient) -> None:
        self._consumer = consumer
        self._admin = admin

    def of(self, tp: TopicPartition) -> KafkaPosition:
        """Ask the brokers; nothing is taken from a cache.

        Raises:
            RetryableError: they do not answer, or not yet.
        """
        wanted = KafkaTopicPartition(tp.topic, tp.partition)
        committed = _asked(tp, lambda: self._consumer.committed([wanted], timeout=_ANSWER_SECONDS))[0]
        if committed.error:
            raise _unknown(tp, committed.error.str())
        low, high = _asked(
            tp, lambda: self._consumer.get_watermark_offsets(wanted, timeout=_ANSWER_SECONDS, cached=False)
        )
        if min(low, high) < 0:
            raise _unknown(tp, f"the broker answers {low} and {high}")
        offset = committed.offset if committed.offset >= 0 else None
        return KafkaPosition(offset, low, high, self.topic_id(tp.topic))

    def topic_id(self, topic: str) -> str:
        """The id of the topic's present life; empty where the broker does not tell, which is not a change of it."""
        answer = self._admin.describe_topics(TopicCollection([topic]), request_timeout=_ANSWER_SECONDS)[topic]
        try:
            return str(answer.result().topic_id or "")
        except KafkaException:
            return ""


def _asked(tp: TopicPartition, question: Callable[[], Any]) -> Any:
    try:
        answer = question()
    except KafkaException as error:
        raise _unknown(tp, error.args[0].str()) from None
    if answer is None:
        raise _unknown(tp, f"no answer in {_ANSWER_SECONDS:.0f} s")
    return answer


def _unknown(tp: TopicPartition, cause: str) -> RetryableError:
    return RetryableError(f"asking Kafka for the offsets of {tp}", cause)
