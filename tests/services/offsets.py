"""What a consumer group has committed, and who is in it."""

import time
from collections.abc import Sequence

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from dev.broker import QUIET, Broker

_PATIENCE = 60.0  # seconds; a broker that has just started does not know its groups yet


def committed_offsets(broker: Broker, group: str, partitions: Sequence[TopicPartition]) -> list[int]:
    """The offsets that the group has committed, by partition; negative where it has none.

    Raises:
        KafkaException: the broker has not told it within a minute.
    """
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group, **QUIET})
    deadline = time.monotonic() + _PATIENCE
    try:
        while True:
            try:
                return [int(found.offset) for found in consumer.committed(list(partitions), timeout=30)]
            except KafkaException:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
    finally:
        consumer.close()


def member_count(broker: Broker, group: str) -> int:
    """How many members the group has, with those that Kafka takes for alive."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, **QUIET})
    return len(admin.describe_consumer_groups([group])[group].result(timeout=_PATIENCE).members)
