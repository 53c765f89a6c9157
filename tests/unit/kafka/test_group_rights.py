"""Rights on topic and group, as far as the broker tells of them."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AclOperation, AdminClient

from app.errors import FatalError
from app.kafka.group import check_group_rights, check_topic_rights

Answer = list[AclOperation] | int | None


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
        future.set_result(SimpleNamespace(authorized_operations=answer))
    return future


def check(topic: Answer, group: Answer) -> None:
    admin = cast(AdminClient, _Admin(topic, group))
    check_topic_rights(admin, "sensors")
    check_group_rights(admin, "sink")


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
