"""Creating the framework's own topics, where a broker or a platform answers otherwise than a test's Kafka does."""

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, KafkaException
from quixstreams.models import Topic, TopicAdmin, TopicConfig, TopicManager
from quixstreams.models.topics.exceptions import (
    CreateTopicFailure,
    CreateTopicTimeout,
    TopicNotFoundError,
)
from quixstreams.platforms.quix.exceptions import QuixApiRequestFailure

from app.consumer.internal_topics import create_internal_topics, pretend_internal_topics
from app.errors import ConfigError, FatalError, RetryableError

CONFIG = TopicConfig(num_partitions=3, replication_factor=2, extra_config={})


class _Manager(TopicManager):
    """Has no topics at first, and shows those that it creates from the second time on that it is asked."""

    def __init__(self, refuse: Callable[[Topic], None] = lambda _: None) -> None:
        super().__init__(TopicAdmin("127.0.0.1:9"), "group", auto_create_topics=False)
        self.created: dict[str, TopicConfig] = {}
        self._refuse = refuse
        self._asked = 0

    def _fetch_topic(self, topic: Topic) -> Topic:
        self._asked += topic.name in self.created
        if topic.name not in self.created or self._asked < 2:
            raise TopicNotFoundError(topic.name)
        found = Topic(topic.name)
        found.broker_config = self.created[topic.name]
        return found

    def _create_topic(self, topic: Topic, timeout: float, create_timeout: float) -> None:
        self._refuse(topic)
        assert topic.create_config
        self.created[topic.name] = topic.create_config


def _managed(refuse: Callable[[Topic], None] = lambda _: None) -> _Manager:
    manager = _Manager(refuse)
    create_internal_topics(manager, sleep=lambda _: None)
    return manager


def _raising(error: Exception) -> Callable[[Topic], None]:
    def refuse(_: Topic) -> None:
        raise error

    return refuse


def test_a_changelog_is_created_compacted_and_waited_for() -> None:
    manager = _managed()
    topic = manager.changelog_topic(stream_id="sensors", store_name="default", config=CONFIG)
    assert topic.name == "changelog__group--sensors--default"
    created = manager.created[topic.name]
    assert (created.num_partitions, created.replication_factor) == (3, 2)
    assert created.extra_config["cleanup.policy"] == "compact"


def test_no_other_topic_is_created() -> None:
    manager = _managed()
    with pytest.raises(TopicNotFoundError):
        manager.topic("sensors")
    assert manager.created == {}


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (
            CreateTopicFailure('… verify if "Create" and "Read" operations are allowed for your credentials'),
            FatalError,
            "rights Create, Describe, DescribeConfigs, Read and Write on topics that begin with 'repartition__group'",
        ),
        (CreateTopicFailure("Cluster authorization failed."), FatalError, "The user needs the rights"),
        (CreateTopicFailure("Broker: Policy violation"), FatalError, "Create it by hand"),
        (CreateTopicTimeout("Timed out waiting"), RetryableError, "Check that the broker is up"),
        (KafkaException(KafkaError(KafkaError._TRANSPORT)), RetryableError, "Check that the broker is up"),
        (QuixApiRequestFailure(403, "https://portal/topics"), FatalError, "Error 403"),
    ],
)
def test_a_refusal_names_the_topic_and_what_to_do(error: Exception, kind: type[Exception], message: str) -> None:
    manager = _managed(_raising(error))
    with pytest.raises(kind) as raised:
        manager.repartition_topic(operation="place", stream_id="sensors", config=CONFIG)
    assert str(raised.value).startswith("creating topic 'repartition__group--sensors--place', which group_by()")
    assert message in str(raised.value)


def test_a_name_that_kafka_refuses_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"exceeds the 255 character limit\. Choose a shorter CONSUMER_GROUP"):
        _managed().repartition_topic(operation="x" * 300, stream_id="sensors", config=CONFIG)


def test_to_see_what_a_transform_comes_to_none_is_created() -> None:
    manager = _Manager()
    pretend_internal_topics(manager)
    topic = manager.changelog_topic(stream_id="sensors", store_name="default", config=CONFIG)
    assert topic.broker_config.num_partitions == 3
    assert manager.created == {}
    with pytest.raises(TopicNotFoundError):
        manager.topic("sensors")
