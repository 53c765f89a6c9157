"""Checks the rights on the consumer group, and the right to write. If the broker reports no rights, checks succeed."""

import json
import logging
import time
from collections.abc import Collection
from typing import Final

from confluent_kafka import ConsumerGroupState, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from quixstreams.kafka import ConnectionConfig

from app.kafka.connection import EVERY_CLIENT
from app.kafka.errors import producing_failed
from app.kafka.group import warn_of_others
from app.kafka.topics import ASKED, describe_with_right

_silent = logging.Logger("nowhere", logging.CRITICAL + 1)  # hides librdkafka's log line about a refusal
_ANSWER_SECONDS: Final = 10.0


def check_group_rights(admin: AdminClient, group: str, topics: Collection[str]) -> bool:
    """Warn if other programs in the consumer group read the topics. Return true if the group does not exist in Kafka.

    Raise ``FatalError`` if the user has no right to read in the group. Only for commands, see ``app.kafka.group``.
    """
    reply = describe_with_right(
        lambda: admin.describe_consumer_groups([group], **ASKED)[group], "Read", f"consumer group {group}"
    )
    members = [(each, {tp.topic for tp in each.assignment.topic_partitions}) for each in reply.members] if reply else ()
    for topic in topics:
        warn_of_others(group, topic, {(member.client_id, member.host) for member, read in members if topic in read})
    return bool(reply) and reply.state == ConsumerGroupState.DEAD


def check_sending(connection: ConnectionConfig) -> None:
    """Raise ``FatalError`` if the brokers refuse an idempotent producer, which quixstreams uses. No record is sent."""
    states: list[str] = []
    properties = {"enable.idempotence": True, "statistics.interval.ms": 100, "logger": _silent}
    callback = {"stats_cb": lambda text: states.append(json.loads(text)["eos"]["idemp_state"])}
    producer = Producer({**EVERY_CLIENT, **connection.as_librdkafka_dict(), **properties, **callback})
    deadline = time.monotonic() + _ANSWER_SECONDS
    while "Assigned" not in states and time.monotonic() < deadline:
        try:
            producer.poll(0.1)
        except KafkaException as error:
            raise producing_failed(error) from None
