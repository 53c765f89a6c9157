"""What a consumer group has committed, and who is in it; and the end of members that are dead."""

import socket
import struct
from collections.abc import Callable, Sequence
from contextlib import closing

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from dev.broker import QUIET, Broker
from tests.support.waiting import wait_until

_LEAVE_GROUP, _VERSION = 13, 0
_NO_ERROR, _UNKNOWN_MEMBER = 0, 25  # who has left meanwhile is unknown
_SECONDS = 60.0


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


def member_ids(bootstrap_servers: str, group: str) -> set[str]:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, **QUIET})
    members = admin.describe_consumer_groups([group])[group].result(_SECONDS).members
    return {member.member_id for member in members}


def leave_group(bootstrap_servers: str, group: str, is_gone: Callable[[str], bool] = lambda _: True) -> None:
    """Take the members out of the group for whose id ``is_gone`` holds; an id begins with the name of its client.

    The dead need not be waited for until their session is over. ``Admin.removeMembersFromConsumerGroup()`` does it in
    Java, which the client for Python does not have.
    """
    for member in filter(is_gone, member_ids(bootstrap_servers, group)):
        code = _leave(bootstrap_servers, group, member)
        assert code in (_NO_ERROR, _UNKNOWN_MEMBER), f"{member} cannot leave {group}: error {code}"


def _leave(server: str, group: str, member_id: str) -> int:
    request = struct.pack(">hhi", _LEAVE_GROUP, _VERSION, 1) + _text("tests") + _text(group) + _text(member_id)
    host, _, port = server.rpartition(":")
    with socket.create_connection((host, int(port)), _SECONDS) as connection, connection.makefile("rb") as answers:
        connection.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", answers.read(4))
        _correlation, code = struct.unpack(">ih", answers.read(size))
    return int(code)


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value.encode())) + value.encode()
