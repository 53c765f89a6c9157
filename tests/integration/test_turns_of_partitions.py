"""No partition is read far ahead of others that have a backlog too: a real Kafka, and the connector's own client."""

import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Message, Producer
from confluent_kafka import TopicPartition as KafkaTopicPartition
from quixstreams import Application

from app.consumer.plain.client import new_client
from app.model import TopicPartition
from app.service.kafka_client import new_application, partition_fetch
from app.service.lake import new_location, new_store
from dev.broker import Broker
from tests.support.environment import load
from tests.support.waiting import wait_until

VALUE = b"x" * 1_000
BACKLOG = 1_500  # messages of each partition
SMALL_CONTAINER = {"Quix__Deployment__Limits__Memory": "1000"}
FAR_LESS_AT_ONCE = {"KAFKA_CLIENT_CONFIG": '{"fetch.max.bytes": 131072}'}


def fill(kafka: Broker, partitions: int, messages: int) -> str:
    """A new topic with so many messages in each partition, in batches as a producer makes them under some load."""
    topic = f"turns-{uuid.uuid4().hex[:8]}"
    kafka.create_topic(topic, partitions)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "batch.size": 8_000, "linger.ms": 20})
    for _ in range(messages):
        for partition in range(partitions):
            producer.produce(topic, VALUE, partition=partition)
    wait_until(lambda: not producer.flush(1), "the messages in the topic")
    return topic


def read(
    kafka: Broker, folder: Path, ends: Mapping[TopicPartition, int], partitions: int = 0, **variables: str
) -> Iterator[Message]:
    """All messages up to these offsets, in the order in which the client of a topic (or of many) gives them."""
    settings = load(
        {"KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers, **variables}, STORAGE_URL=folder.as_uri(), input="turns"
    )
    application = new_application(Application, settings, new_location(settings, new_store(settings), None), folder)
    left = sum(ends.values())
    fetch = partition_fetch(settings, partitions) if partitions else {}
    with closing(new_client(application.config, {"statistics.interval.ms": 0, **fetch})) as client:
        client.assign([KafkaTopicPartition(*tp, 0) for tp in ends])
        while left:
            messages = client.consume(10_000, 0.1)
            left -= len(messages)
            yield from messages


def greatest_distance(messages: Iterator[Message], partitions: int) -> float:
    """Between the offsets of the partition read farthest and of the least, as a share of a partition."""
    read_of, distance = [0] * partitions, 0
    for message in messages:
        read_of[message.partition()] += 1
        distance = max(distance, max(read_of) - min(read_of))
    return distance / BACKLOG


@pytest.mark.parametrize(
    ("partitions", "variables", "most"),
    [(8, {}, 0.1), (8, SMALL_CONTAINER, 0.1), (8, FAR_LESS_AT_ONCE, 0.1), (24, {}, 0.3)],
    ids=["eight", "a small container", "fetch.max.bytes", "24"],
)
def test_partitions_of_a_broker_are_read_side_by_side(
    kafka: Broker, tmp_path: Path, partitions: int, variables: dict[str, str], most: float
) -> None:
    topic = fill(kafka, partitions, BACKLOG)
    ends = {TopicPartition(topic, partition): BACKLOG for partition in range(partitions)}
    assert greatest_distance(read(kafka, tmp_path, ends, partitions, **variables), partitions) < most


def test_a_topic_with_all_the_backlog_holds_up_no_other(kafka: Broker, tmp_path: Path) -> None:
    busy, others = fill(kafka, 4, 2 * BACKLOG), [fill(kafka, 1, 3) for _ in range(19)]
    ends = {TopicPartition(busy, partition): 2 * BACKLOG for partition in range(4)}
    ends |= {TopicPartition(topic, 0): 3 for topic in others}
    order = [message.topic() for message in read(kafka, tmp_path, ends)]
    of_others = len(order) - 1 - next(at for at, topic in enumerate(reversed(order)) if topic != busy)
    assert of_others < len(order) * 0.1
