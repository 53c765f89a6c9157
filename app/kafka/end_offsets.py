"""Asks the brokers for the end offsets of partitions, on another thread than the consumer's.

The consumer learns the ends only from the messages that it fetches. While it is paused, as in an outage of the store, a
lag computed from them would not change, although it grows.
"""

import logging
from collections.abc import Collection, Mapping

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from app.kafka.errors import PASSING_ERRORS
from app.kafka.questions import unanswered
from app.model import TopicPartition

logger = logging.getLogger(__name__)

_ANSWER_SECONDS = 10.0
_ENDS = "the ends of the partitions"
_UNKNOWN = frozenset({KafkaError._UNKNOWN_PARTITION, KafkaError._NOENT, KafkaError.UNKNOWN_TOPIC_OR_PART})


def end_offsets(admin: AdminClient, tps: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    """The next offset to be produced, of those partitions whose leaders answer; raises if Kafka does not at all."""
    admin.poll(0)  # the client writes its log lines only here
    if not tps:
        _ask_for_nothing(admin)
        return {}
    found = _ends(admin, tps)
    if not found:
        raise unanswered(_ENDS, f"no answer within {_ANSWER_SECONDS:.0f} s")
    return found


def _ask_for_nothing(admin: AdminClient) -> None:
    """Find out whether Kafka answers while no partition is assigned: it takes all of them away in an outage."""
    try:
        admin.describe_cluster(request_timeout=_ANSWER_SECONDS).result()
    except KafkaException as error:
        if error.args[0].code() in PASSING_ERRORS:  # others are an answer, such as a refusal
            raise unanswered(_ENDS, error.args[0].str()) from None


def _ends(admin: AdminClient, tps: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    latest = {KafkaTopicPartition(tp.topic, tp.partition): OffsetSpec.latest() for tp in tps}
    found, unknown = _asked(admin, latest)
    if unknown:  # the client's metadata is older than the partition
        for topic in {tp.topic for tp in tps}:
            error = admin.list_topics(topic, timeout=_ANSWER_SECONDS).topics[topic].error
            if error and error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise unanswered(_ENDS, f"topic {topic} does not exist").of("topic")
        found, _ = _asked(admin, latest)
    return found


def _asked(
    admin: AdminClient, latest: Mapping[KafkaTopicPartition, OffsetSpec]
) -> tuple[dict[TopicPartition, int], bool]:
    """The ends, and whether a partition is unknown; then others may have no answer either."""
    found: dict[TopicPartition, int] = {}
    unknown = False
    for asked, answer in admin.list_offsets(latest, request_timeout=_ANSWER_SECONDS).items():
        try:
            offset = answer.result().offset
            if offset >= 0:  # it is negative, without an error, where the leader went away
                found[TopicPartition(asked.topic, asked.partition)] = offset
        except KafkaException as error:
            unknown = unknown or error.args[0].code() in _UNKNOWN
            logger.debug("%s[%d]: its end is not known (%s)", asked.topic, asked.partition, error.args[0].str())
    return found, unknown
