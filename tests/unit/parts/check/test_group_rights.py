"""Rights on topic and group, as far as the broker tells of them, and other programs in the group."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AclOperation, AdminClient

from app.errors import FatalError
from app.kafka.group import Writes
from app.kafka.topics import check_topic_rights
from app.parts.check.rights import check_group_rights

Answer = list[AclOperation] | int | None

MEMBERS = {
    "console": [TopicPartition("sensors", 0)],
    "other": [TopicPartition("orders", 0)],
    Writes("sensors", "s3://lake/data").client_id: [TopicPartition("sensors", 1)],
}


class _Admin:
    """Describes a topic and a group with these operations; a number is the error that it gives instead."""

    def __init__(self, topic: Answer, group: Answer) -> None:
        self._topic = topic
        self._group = group

    def describe_topics(self, topics: Any, **_: Any) -> dict[str, Future[Any]]:
        return {"sensors": _answer(self._topic)}

    def describe_consumer_groups(self, groups: Any, **_: Any) -> dict[str, Future[Any]]:
        return {"sink": _answer(self._group)}


def _answer(answer: Answer) -> Future[Any]:
    future: Future[Any] = Future()
    if isinstance(answer, int):
        future.set_exception(KafkaException(KafkaError(answer)))
    else:
        members = [
            SimpleNamespace(client_id=name, host="/10.0.0.7", assignment=SimpleNamespace(topic_partitions=partitions))
            for name, partitions in MEMBERS.items()
        ]
        state = ConsumerGroupState.STABLE
        future.set_result(SimpleNamespace(authorized_operations=answer, members=members, state=state))
    return future


def check(topic: Answer, group: Answer) -> None:
    admin = cast(AdminClient, _Admin(topic, group))
    check_topic_rights(admin, "sensors")
    check_group_rights(admin, "sink", ["sensors"])


def test_another_program_that_reads_the_topic_is_told(caplog: pytest.LogCaptureFixture) -> None:
    check([AclOperation.ALL], [AclOperation.ALL])
    (told,) = caplog.messages
    assert "another program reads topic sensors in consumer group sink: console at /10.0.0.7" in told


def test_the_right_to_write_is_another_one() -> None:
    admin = cast(AdminClient, _Admin([AclOperation.READ], None))
    with pytest.raises(FatalError, match=r"no right to write it\. Allow Write on topic sensors"):
        check_topic_rights(admin, "sensors", right="Write")


ALLOWED: list[Answer] = [[AclOperation.READ, AclOperation.DESCRIBE], [AclOperation.ALL]]
NO_TOPIC = r"rights on topic sensors: the user has no right .*Allow Read on topic sensors"
NO_GROUP = "Allow Read on consumer group sink"
UNKNOWN: list[Answer] = [None, [], KafkaError.UNSUPPORTED_VERSION, KafkaError._TIMED_OUT]


@pytest.mark.parametrize("answer", [*ALLOWED, *UNKNOWN])
def test_allowed_and_unknown_rights_pass(answer: Answer) -> None:
    check(answer, answer)


@pytest.mark.parametrize(
    ("topic", "group", "told"),
    [
        ([AclOperation.DESCRIBE], ALLOWED[0], NO_TOPIC),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, ALLOWED[0], NO_TOPIC),
        (ALLOWED[0], [AclOperation.DESCRIBE, AclOperation.DELETE], NO_GROUP),
        (ALLOWED[0], KafkaError.GROUP_AUTHORIZATION_FAILED, NO_GROUP),
    ],
)
def test_a_topic_that_may_not_be_read_and_a_group_that_may_not_be_joined(
    topic: Answer, group: Answer, told: str
) -> None:
    with pytest.raises(FatalError, match=told):
        check(topic, group)
