"""Creates the internal topics of quixstreams: changelogs of state, and the repartition topics of ``group_by()``.

All other topics must exist. The framework's own option creates all missing topics or none.
"""

import logging
import time
from collections.abc import Callable
from functools import partial

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient
from quixstreams.models.topics import Topic, TopicConfig, TopicManager
from quixstreams.models.topics.exceptions import (
    CreateTopicFailure,
    CreateTopicTimeout,
    TopicConfigurationMismatch,
    TopicNameLengthExceeded,
    TopicNotFoundError,
    TopicPermissionError,
)
from quixstreams.models.topics.topic import TopicType
from quixstreams.platforms.quix.exceptions import QuixApiRequestFailure

from app.errors import ConfigError, ConnectorError, FatalError, RetryableError

logger = logging.getLogger(__name__)

_WHAT_FOR = {
    TopicType.CHANGELOG: "which keeps the state of transform()",
    TopicType.REPARTITION: "which group_by() in transform() sends records through",
}
_RIGHTS = "The user needs the rights Create, Describe, DescribeConfigs, Read and Write on topics that begin with"
_REFUSED = ("AUTHORIZATION_FAILED", "operations are allowed for your credentials", "uthorization failed")
_NEEDED = (AclOperation.READ, AclOperation.WRITE)
_ANSWER_SECONDS = 10.0
_SEEN_SECONDS = 10.0  # until each broker knows a new topic
_PAUSE_SECONDS = 0.2


def create_internal_topics(manager: TopicManager, *, sleep: Callable[[float], None] = time.sleep) -> None:
    """Let this manager create missing internal topics, and no others.

    The framework chooses their settings: as many partitions and replicas as the input topic, and compacted changelogs.
    It also chooses the names, to which Quix Cloud adds the workspace.
    """
    manager._get_or_create_broker_topic = partial(_found_or_created, manager, sleep)  # type: ignore[method-assign]
    made = manager.changelog_topic
    manager.changelog_topic = partial(_changelog, made)  # type: ignore[method-assign]


def pretend_internal_topics(manager: TopicManager) -> None:
    """Let this manager behave as if missing internal topics existed, to build a ``transform()`` without them."""
    manager._get_or_create_broker_topic = partial(_found_or_imagined, manager)  # type: ignore[method-assign]


def as_created(topic: Topic) -> Topic:
    """The topic as it would be on the broker."""
    imagined = Topic(name=topic.name)
    imagined.broker_config = topic.create_config or TopicConfig(num_partitions=1, replication_factor=1)
    return imagined


def check_internal_rights(admin: AdminClient, manager: TopicManager) -> None:
    """Ask which operations are allowed on these topics; passes if the broker does not say.

    Raises:
        FatalError: a right is missing.
    """
    topics = {topic.name: topic for topic in [*manager.repartition_topics.values(), *manager.changelog_topics_list]}
    if not topics:
        return
    described = admin.describe_topics(
        TopicCollection(list(topics)), include_authorized_operations=True, request_timeout=_ANSWER_SECONDS
    )
    for name, future in described.items():
        try:
            allowed = future.result().authorized_operations
        except KafkaException as error:
            logger.debug("the rights on %s are not known: %s", name, error.args[0].str())
            continue
        missing = [right.name for right in _NEEDED if allowed and not {right, AclOperation.ALL}.intersection(allowed)]
        if missing:
            doing = f"asking for the rights on topic {name!r}, {_WHAT_FOR[topics[name]._type]}"
            wanted = " and ".join(right.capitalize() for right in missing)
            raise FatalError(doing, f"the user has no right to {' or '.join(missing).lower()} it", f"Allow {wanted}")


def _found_or_imagined(manager: TopicManager, topic: Topic) -> Topic:
    try:
        return manager._fetch_topic(topic)
    except TopicNotFoundError:
        if topic._type is TopicType.REGULAR:
            raise
        return as_created(topic)


def _found_or_created(manager: TopicManager, sleep: Callable[[float], None], topic: Topic) -> Topic:
    if topic._type is TopicType.REGULAR:
        return manager._fetch_topic(topic)
    try:
        return _found(manager, topic, 0.0, sleep) or _created(manager, topic, sleep)
    except (
        CreateTopicFailure,
        CreateTopicTimeout,
        KafkaException,
        QuixApiRequestFailure,
        TopicNameLengthExceeded,
        TopicPermissionError,
    ) as error:
        raise _not_created(topic, error) from None


def _created(manager: TopicManager, topic: Topic, sleep: Callable[[float], None]) -> Topic:
    manager._validate_topic_name(topic.name)
    manager._create_topic(topic, timeout=manager._timeout, create_timeout=manager._create_timeout)
    found = _found(manager, topic, _SEEN_SECONDS, sleep)
    if found is None:
        raise TopicPermissionError("the broker has it, and does not show it to us")
    return found


def _found(manager: TopicManager, topic: Topic, seconds: float, sleep: Callable[[float], None]) -> Topic | None:
    give_up = time.monotonic() + seconds
    while True:
        try:
            return manager._fetch_topic(topic)
        except TopicNotFoundError:
            if time.monotonic() >= give_up:
                return None
        sleep(_PAUSE_SECONDS)


def _changelog(made: Callable[..., Topic], stream_id: str | None, store_name: str, config: TopicConfig) -> Topic:
    try:
        return made(stream_id=stream_id, store_name=store_name, config=config)
    except TopicConfigurationMismatch as error:
        raise ConfigError(
            "finding the changelog of the state of transform()",
            str(error).rstrip('"'),
            "The input topic has got other partitions since, and keys may have moved between them: give the connector "
            "another CONSUMER_GROUP, or delete the changelog to begin without state",
        ) from None


def _not_created(topic: Topic, error: Exception) -> ConnectorError:
    doing = f"creating topic {topic.name!r}, {_WHAT_FOR[topic._type]}"
    cause = str(error.args[0].str() if isinstance(error, KafkaException) else error)
    if isinstance(error, TopicPermissionError) or any(word in cause for word in _REFUSED):
        return FatalError(doing, cause, f"{_RIGHTS} {topic.name.partition('--')[0]!r}; or create it by hand")
    if isinstance(error, CreateTopicTimeout | KafkaException):
        return RetryableError(doing, cause, "Check that the broker is up")
    if isinstance(error, TopicNameLengthExceeded):
        return ConfigError(doing, cause, "Choose a shorter CONSUMER_GROUP, or a shorter name in transform()")
    return FatalError(doing, cause, "Create it by hand, compacted if it is a changelog, or ask who runs the broker")
