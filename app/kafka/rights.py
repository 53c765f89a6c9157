"""Tries what the user may do, for ``check``; passes where the broker does not say."""

import json
import logging
import time
from collections.abc import Callable, Collection
from functools import cache, partial
from typing import Any, Final

from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException, Producer, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient
from quixstreams.kafka import ConnectionConfig

from app.errors import FatalError
from app.kafka.connection import EVERY_CLIENT
from app.kafka.errors import producing_failed
from app.kafka.group import warn_of_others

logger = logging.getLogger(__name__)

_silent = logging.Logger("nowhere", logging.CRITICAL + 1)  # a refusal is the client's emergency
_ANSWER_SECONDS: Final = 10.0
_ASKED: Final[dict[str, Any]] = {"include_authorized_operations": True, "request_timeout": _ANSWER_SECONDS}
_REFUSED: Final = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED})


def check_topic_rights(admin: AdminClient, *topics: str, right: str = "Read") -> None:
    """Raise ``FatalError`` without this right on a topic; asks for all at once."""
    described = cache(lambda: admin.describe_topics(TopicCollection([*topics]), **_ASKED))
    for topic in topics:
        _described(partial(lambda name: described()[name], topic), right, f"topic {topic}")


def check_group_rights(admin: AdminClient, group: str, topics: Collection[str]) -> bool:
    """The same for the group, and warn of other programs in it that read the topics; returns whether Kafka lacks it.

    Not for a process that goes on, see ``app.kafka.group``: a member asks for its offsets.
    """
    found = _described(
        lambda: admin.describe_consumer_groups([group], **_ASKED)[group], "Read", f"consumer group {group}"
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


def _described(describe: Callable[[], Any], right: str, what: str) -> Any:
    doing, cause = f"asking for the rights on {what}", f"the user has no right to {right.lower()} it"
    refused = FatalError(doing, cause, f"Allow {right} on {what}")
    try:
        described = describe().result()
    except KafkaException as error:
        if error.args[0].code() in _REFUSED:
            raise refused from None
        logger.debug("the rights on %s are not known: %s", what, error.args[0].str())
        return None
    allowed = described.authorized_operations
    if allowed and not {AclOperation[right.upper()], AclOperation.ALL}.intersection(allowed):
        raise refused
    return described
