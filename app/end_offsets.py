"""How far the partitions of a topic go by now, asked off the consumer's thread.

What the consumer knows by itself comes with the messages that it fetches: while it is paused, as in an outage of the
store, it learns nothing, and a lag taken from that would stand still just when it grows.
"""

import logging
from collections.abc import Collection

from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from app.model import TopicPartition

logger = logging.getLogger(__name__)

_ANSWER_SECONDS = 10.0


class EndOffsets:
    """Asks the brokers.

    Args:
        admin: what to ask with.
    """

    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin

    def of(self, tps: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The next offset to be produced, of those partitions whose leaders answer."""
        self._admin.poll(0)  # only now it hands on what it has to log
        if not tps:
            return {}
        latest = {KafkaTopicPartition(tp.topic, tp.partition): OffsetSpec.latest() for tp in tps}
        found = {}
        for asked, answer in self._admin.list_offsets(latest, request_timeout=_ANSWER_SECONDS).items():
            try:
                found[TopicPartition(asked.topic, asked.partition)] = answer.result().offset
            except KafkaException as error:
                logger.debug("%s[%d]: its end is not known (%s)", asked.topic, asked.partition, error.args[0].str())
        return found
