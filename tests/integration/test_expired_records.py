"""A batch left incomplete whose records a real Kafka has deleted meanwhile, or has in a topic that was recreated."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as KafkaTopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from app.kafka.questions import GroupOffsets
from app.model import TopicPartition
from dev.broker import ADMIN_TIMEOUT, Broker
from tests.support.waiting import wait_until
from tests.support.world import FORMER, World, claim_of, intent


class Topic:
    def __init__(self, kafka: Broker) -> None:
        self.name = f"expired-{uuid.uuid4().hex[:8]}"
        self._kafka = kafka
        settings: dict[str, Any] = {"bootstrap.servers": kafka.bootstrap_servers}
        self.admin = AdminClient(settings)
        self.consumer = Consumer({**settings, "group.id": self.name})
        self._producer = Producer(settings)
        self.create()

    def create(self) -> None:
        topic = NewTopic(self.name, 1, 1, config={"retention.ms": "-1"})
        self.admin.create_topics([topic])[self.name].result(ADMIN_TIMEOUT)
        for number in range(100):
            self._producer.produce(self.name, str(number), partition=0)
        wait_until(lambda: not self._producer.flush(1), "the topic's records")

    def expire(self, before: int) -> None:
        self._kafka.delete_records([KafkaTopicPartition(self.name, 0, before)])

    def recreate(self) -> None:
        self.admin.delete_topics([self.name])[self.name].result(ADMIN_TIMEOUT)
        wait_until(lambda: self.name not in self.admin.list_topics(timeout=60).topics, "the end of the topic")
        self.create()


class RealBench(World):
    """Claims over a real folder and a real Kafka; the partition has the topic's name there."""

    def __init__(self, folder: Path, topic: Topic) -> None:
        super().__init__(folder)
        real = GroupOffsets(topic.consumer, topic.admin)
        tp = TopicPartition(topic.name, 0)
        asked: Any = self.kafka
        asked.of = lambda _: real.of(tp)
        asked.topic_id = lambda _: real.topic_id(tp.topic)


@pytest.fixture
def topic(kafka: Broker) -> Iterator[Topic]:
    topic = Topic(kafka)
    yield topic
    topic.consumer.close()


def test_the_ends_of_a_topic_are_what_kafka_still_has(topic: Topic) -> None:
    offsets = GroupOffsets(topic.consumer, topic.admin)
    topic.expire(25)
    tp = TopicPartition(topic.name, 0)
    assert (offsets.beginnings(topic.name), offsets.ends(topic.name)) == ({tp: 25}, {tp: 100})


@pytest.mark.parametrize(
    ("what", "kept", "offset"), [("nothing", False, 10), ("expire", True, 40), ("recreate", True, 0)]
)
def test_a_file_of_an_incomplete_batch_stays_where_kafka_cannot_give_its_records_again(
    tmp_path: Path, topic: Topic, what: str, kept: bool, offset: int
) -> None:
    world = RealBench(tmp_path, topic)
    former = world.begun(FORMER, end=9, topic_id=world.kafka.topic_id(topic.name))
    former.intend(intent("1", "2", end=39))
    world.store_files("1")
    if what == "expire":
        topic.expire(38)
    elif what == "recreate":
        topic.recreate()

    assert claim_of(world.new_member()).start.offset == offset
    assert world.has("1") is kept
    world.stop()
