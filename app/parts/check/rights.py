"""Tries the rights on the consumer group, and that of a producer; passes where the broker does not say."""

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

_silent = logging.Logger("nowhere", logging.CRITICAL + 1)  # a refusal is the client's emergency
_ANSWER_SECONDS: Final = 10.0


def check_group_rights(admin: AdminClient, group: str, topics: Collection[str]) -> bool:
    """Raise ``FatalError`` without the right to read, and warn of other programs in the group that read the topics.

    Returns whether Kafka lacks the group. Not for a process that goes on, see ``app.kafka.group``: a member asks for
    its offsets.
    """
    found = describe_with_right(
        lambda: admin.describe_consumer_groups([group], **ASKED)[group], "Read", f"consumer group {group}"
    )
    members = [(each, {tp.topic for tp in each.assignment.topic_partitions}) for each in found.members] if found else ()
    for topic in topics:
        warn_of_others(group, topic, {(each.client_id, each.host) for each, its in members if topic in its})
    return bool(found) and found.state == ConsumerGroupState.DEAD


def check_sending(connection: ConnectionConfig) -> None:
    """Raise ``FatalError`` if the brokers refuse an idempotent producer, as quixstreams' is; sends nothing."""
    states: list[str] = []
    properties = {"enable.idempotence": True, "statistics.interval.ms": 100, "logger": _silent}
    told = {"stats_cb": lambda text: states.append(json.loads(text)["eos"]["idemp_state"])}
    producer = Producer({**EVERY_CLIENT, **connection.as_librdkafka_dict(), **properties, **told})
    give_up = time.monotonic() + _ANSWER_SECONDS
    while "Assigned" not in states and time.monotonic() < give_up:
        try:
            producer.poll(0.1)
        except KafkaException as error:
            raise producing_failed(error) from None
