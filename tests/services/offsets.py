"""What a consumer group has committed, and who is in it."""

from collections.abc import Sequence
from contextlib import closing

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from dev.broker import QUIET, Broker
from tests.support.waiting import wait_until


def committed_offsets(broker: Broker, group: str, partitions: Sequence[TopicPartition]) -> list[int]:
    """The offsets that the group has committed, by partition; negative where it has none."""
    told: list[TopicPartition] = []

    def is_told() -> bool:
        try:
            told.extend(consumer.committed(list(partitions), timeout=30))
        except KafkaException:  # a broker that has just started does not know its groups yet
            return False
        return True

    with closing(Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group, **QUIET})) as consumer:
        wait_until(is_told, f"what {group} has committed", pause=0.1)
    return [int(found.offset) for found in told]


def member_count(broker: Broker, group: str) -> int:
    """How many members the group has, with those that Kafka takes for alive."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, **QUIET})
    described = admin.describe_consumer_groups([group])[group]
    wait_until(described.done, f"the members of {group}")
    return len(described.result().members)
