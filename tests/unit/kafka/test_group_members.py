"""Members of the consumer group that write another table, before joining it and while in it."""

from itertools import product
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from app.errors import RetryableError
from app.kafka.group import OtherTables, Writes, check_members, is_member
from app.monitoring.metrics import Metrics
from app.service.kafka_client import what_is_written
from app.table.existing_table import TableLocation
from tests.support.environment import load

WRITES = Writes("sensors", "s3://lake/one")
OURS = SAME = WRITES.client_id
OTHER, OTHER_TOPIC = (Writes(topic, "s3://lake/other").client_id for topic in ("sensors", "else"))

# Partition 0 of the topic, as in Kafka's protocol of consumers: version 0, one topic, one partition, no user data.
ASSIGNED = b"\0\0\0\0\0\x01\0\x07sensors\0\0\0\x01\0\0\0\0\0\0\0\0"


class Group:
    """The client ids of its members, or the error that Kafka answers with."""

    def __init__(self, *members: str | None, error: int | None = None, is_of_group: bool = False) -> None:
        self.members = members
        self.error = error
        self.is_of_group = is_of_group  # whether the error is the group's, and not the whole answer
        self.assignment = ASSIGNED

    def list_groups(self, group: str, timeout: float) -> list[Any]:
        if self.error is not None and not self.is_of_group:
            raise KafkaException(KafkaError(self.error))
        error = None if self.error is None else KafkaError(self.error)
        members = [
            SimpleNamespace(id=f"{found}-1", client_id=found, client_host="/10.0.0.7", assignment=self.assignment)
            for found in ([] if error else self.members)
        ]
        return [SimpleNamespace(error=error, members=members)]


def others(group: Group) -> OtherTables:
    return OtherTables(cast(AdminClient, group), "sink", ["sensors"], WRITES)


def test_the_members_that_write_our_table_are_counted_and_other_programs_are_shown_until_they_leave() -> None:
    now = 0.0
    metrics = Metrics(lambda: now)
    group = Group(OURS, SAME, OTHER_TOPIC, "console")
    looking = OtherTables(cast(AdminClient, group), "sink", ["sensors"], WRITES, metrics.members)
    for now, question in ((100.0, looking.at_assignment), (120.0, looking.later), (140.0, looking.later)):
        assert question() is None
        counts = metrics.counts()
        assert (counts.replicas, [*counts.programs]) == (2, ["console at /10.0.0.7"])
        assert counts.lasting_programs == (counts.programs if now > 100.0 else ()), "a rebalance is over sooner"
    group.members = (OURS, SAME)
    assert looking.later() is None
    assert not metrics.counts().programs
    group.members = (OURS, "console")
    assert looking.later() is None
    assert not metrics.counts().lasting_programs, "it has come again just now"


def test_each_other_program_that_reads_the_topic_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    group = Group(OURS, SAME, OTHER_TOPIC, "console")
    looking = others(group)
    for question in (looking.at_assignment, looking.later, looking.later):
        assert question() is None
    told = "another program reads topic sensors in consumer group sink: console at /10.0.0.7."
    assert [message.startswith(told) for message in caplog.messages] == [True]

    group.members = (OURS, "console", "old-sink")
    assert looking.later() is None
    assert "old-sink at /10.0.0.7" in caplog.messages[-1]
    assert len(caplog.messages) == 2


def test_a_program_that_waits_or_reads_another_topic_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    group = Group(OURS, "console")
    looking = others(group)
    for group.assignment in (
        b"",
        ASSIGNED.replace(b"\x07sensors", b"\x07sensor2"),
        ASSIGNED.replace(b"\x07s", b"\x08xs"),
    ):
        assert looking.later() is None
    assert caplog.messages == []


def test_a_group_without_members_is_told_to_have_another_program(caplog: pytest.LogCaptureFixture) -> None:
    """A group of Kafka's newer protocol: to ask for its members in another way may end the process."""
    looking = others(Group())
    for question in (looking.at_assignment, looking.later):
        assert question() is None
    assert ["group.protocol=consumer" in message for message in caplog.messages] == [True]


def check(group: Group) -> None:
    check_members(cast(AdminClient, group), "sink", WRITES, ["sensors"])


def test_before_joining_other_programs_are_told(caplog: pytest.LogCaptureFixture) -> None:
    check(Group(SAME, "console"))
    assert ["console at /10.0.0.7" in message for message in caplog.messages] == [True]


def test_before_joining_another_table_is_refused() -> None:
    with pytest.raises(RetryableError, match=r"joining consumer group sink: a member at /10.0.0.7 .* does not join"):
        check(Group(SAME, OTHER))


@pytest.mark.parametrize("member", [SAME, OTHER_TOPIC, "console-consumer", "", None])
def test_who_does_not_write_another_table_from_the_topic_is_no_hindrance(member: str | None) -> None:
    check(Group(member))
    assert others(Group(OURS, member)).at_assignment() is None


def test_before_joining_a_group_that_kafka_does_not_show_yet_is_joined() -> None:
    check(Group(error=KafkaError.COORDINATOR_NOT_AVAILABLE))


def test_who_meets_another_table_at_the_first_assignment_ends() -> None:
    error = others(Group(OURS, OTHER)).at_assignment()
    assert "leaves the group before it reads a record. Set a separate CONSUMER_GROUP for each" in str(error)


def test_who_had_the_group_alone_goes_on_where_the_other_one_leaves_and_ends_where_it_stays() -> None:
    group = Group(OURS)
    looking = others(group)
    assert looking.at_assignment() is None
    group.members = (OURS, OTHER)
    assert looking.at_assignment() is None, "another assignment, for the other one has come"
    assert looking.later() is None
    group.members = (OURS,)
    assert looking.later() is None
    group.members = (OURS, OTHER)
    assert looking.later() is None
    assert "They stay, so this connector leaves" in str(looking.later())


def test_where_nobody_was_seen_at_the_assignment_the_first_look_counts() -> None:
    """A broker was down, which holds up nothing for long."""
    group = Group(OURS, OTHER, error=KafkaError._TIMED_OUT)
    looking = others(group)
    for _ in range(2):
        with pytest.raises(RetryableError):
            looking.at_assignment()
    assert looking.at_assignment() is None
    with pytest.raises(RetryableError):
        looking.later()
    group.error = None
    assert looking.later() is not None


@pytest.mark.parametrize("code", [KafkaError._TIMED_OUT, KafkaError.COORDINATOR_NOT_AVAILABLE])
@pytest.mark.parametrize("is_of_group", [True, False])
def test_no_answer_at_the_first_assignment_is_asked_for_again(code: int, *, is_of_group: bool) -> None:
    group = Group(OURS, OTHER, error=code, is_of_group=is_of_group)
    looking = others(group)
    with pytest.raises(RetryableError, match="asking Kafka for the members of group sink"):
        looking.at_assignment()
    group.error = None
    assert looking.at_assignment() is not None


def test_a_user_who_may_not_see_the_members_is_not_kept_from_reading() -> None:
    group = Group(OURS, error=KafkaError.GROUP_AUTHORIZATION_FAILED, is_of_group=True)
    assert others(group).at_assignment() is None
    assert not is_member(cast(AdminClient, group), "sink", f"{OURS}-1")


@pytest.mark.parametrize(
    ("member_id", "is_in_it"), [(f"{OURS}-1", True), (f"{OURS}-2", False), ("", False), (None, False)]
)
def test_a_member_is_in_the_group_under_the_id_that_the_coordinator_gave_it(
    member_id: str | None, *, is_in_it: bool
) -> None:
    assert is_member(cast(AdminClient, Group(OURS, "")), "sink", member_id) == is_in_it


def test_without_an_answer_nothing_is_known_of_a_member() -> None:
    with pytest.raises(RetryableError, match="asking Kafka for the members of group sink"):
        is_member(cast(AdminClient, Group(OURS, error=KafkaError._TIMED_OUT)), "sink", f"{OURS}-1")


def _several(table: str) -> Writes:
    return Writes("{topic}", f"s3://lake/{table}", prefix="ws-")


@pytest.mark.parametrize(
    ("ours", "theirs", "is_refused"),
    [
        (_several("{topic}"), _several("{topic}"), False),
        (_several("{topic}"), _several("raw_{topic}"), True),
        (_several("raw_{topic}"), Writes("sensors", "s3://lake/raw_sensors"), False),
        (_several("raw_{topic}"), Writes("sensors", "s3://lake/sensors"), True),
        (Writes("sensors", "s3://lake/raw_sensors"), _several("raw_{topic}"), False),
    ],
)
def test_members_of_several_topics_agree_on_the_table_of_each(ours: Writes, theirs: Writes, is_refused: bool) -> None:
    group = Group(theirs.client_id)
    group.assignment = b"\0\x0aws-sensors"
    looking = OtherTables(cast(AdminClient, group), "sink", ["ws-sensors", "ws-payments"], ours)
    assert (looking.at_assignment() is not None) == is_refused


@pytest.mark.parametrize("topic", ["orders", "raw", "orders_eu", "topic", "t", "lake", "data"])
def test_a_member_of_one_topic_and_one_of_several_agree_exactly_where_the_table_is_the_same(topic: str) -> None:
    """Whatever TABLE_NAME either of them has: the bucket, the folder and other names may have the topic's in them."""
    names = ["{topic}", "raw_{topic}", "{topic}_raw", "{topic}_{topic}", "r{topic}w_{topic}_{topic}"]
    names += ["orders", "raw_orders", "raw", "raw_raw", "orders_eu", "topic", "t_t", "lake", "data", "a" * 18]
    base = {"STORAGE_URL": "s3://lake", "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1"}
    settings = [load(base, input=read, TABLE_NAME=name) for read, name in product((topic, "orders,raw"), names)]
    writes = [what_is_written(each, TableLocation("s3://lake", f"data/{each.table}")) for each in settings]
    members = [*zip((each.of_topic(topic).table for each in settings), writes, names * 2, strict=True)]

    def is_refused(ours: Writes, theirs: Writes) -> bool:
        group = Group(theirs.client_id)
        group.assignment = b"\0" + bytes([len(topic)]) + topic.encode()
        looking = OtherTables(cast(AdminClient, group), "sink", [topic], ours)
        return looking.at_assignment() is not None

    for (table, one, of_one), (same, several, of_several) in product(members[: len(names)], members[len(names) :]):
        refused = is_refused(one, several), is_refused(several, one)
        assert refused == (table != same, table != same), f"TABLE_NAME={of_one}, then {of_several}"


def test_members_of_several_topics_that_share_none_are_let_alone() -> None:
    group = Group(_several("raw_{topic}").client_id)
    group.assignment = b"\0\x09ws-orders"
    looking = OtherTables(cast(AdminClient, group), "sink", ["ws-sensors"], _several("{topic}"))
    assert looking.at_assignment() is None
