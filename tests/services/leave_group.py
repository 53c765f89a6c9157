"""Takes members out of a consumer group: the dead need not be waited for until their session is over.

As ``Admin.removeMembersFromConsumerGroup()`` does it in Java, which the client for Python does not have.
"""

import socket
import struct
from collections.abc import Callable

from confluent_kafka.admin import AdminClient

from dev.broker import QUIET

_LEAVE_GROUP, _VERSION = 13, 0
_NO_ERROR, _UNKNOWN_MEMBER = 0, 25  # who has left meanwhile is unknown
_SECONDS = 60.0


def member_ids(bootstrap_servers: str, group: str) -> set[str]:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, **QUIET})
    members = admin.describe_consumer_groups([group])[group].result(_SECONDS).members
    return {member.member_id for member in members}


def leave_group(bootstrap_servers: str, group: str, is_gone: Callable[[str], bool] = lambda _: True) -> None:
    """Take the members out of the group for whose id ``is_gone`` holds; an id begins with the name of its client."""
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
