"""Where a partition begins of which the group has neither an offset nor a journal."""

import threading
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from app.errors import FatalError, RetryableError
from app.journal.entry import claim_key
from app.journal.first_offsets import FirstOffsets
from app.journal.journal import CLAIM, Journal, PartitionClaim
from app.kafka.questions import GroupOffsets, PartitionOffsets
from app.model import TopicPartition
from tests.fakes.clock import Clock
from tests.fakes.journal_store import JournalStore
from tests.support.waiting import PATIENCE
from tests.support.world import P0, P1, P2

HOUR = 3600.0
ORDERS = TopicPartition("orders", 0)


class Kafka(GroupOffsets):
    def __init__(self) -> None:
        self.committed: set[int] = set()
        self.high = {0: 100, 1: 200}
        self.cluster, self.topic = "one", "id"
        self.hides_beginnings = False
        self.later: dict[int, int] = {}  # the first offset of a partition since any moment
        self.asked: list[datetime] = []

    def begun(self, topic: str) -> set[TopicPartition]:
        return {TopicPartition(topic, partition) for partition in self.committed if topic == "sensors"}

    def ends(self, topic: str) -> dict[TopicPartition, int]:
        return {TopicPartition(topic, partition): high for partition, high in self.high.items()}

    def since(self, moment: datetime, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        self.asked.append(moment)
        return {tp: self.later.get(tp.partition, end) for tp, end in ends.items()}

    def beginnings(self, topic: str) -> dict[TopicPartition, int]:
        if self.hides_beginnings:
            raise RetryableError("asking Kafka for the beginnings", "no answer")
        return {TopicPartition(topic, partition): 7 for partition in self.high}

    def topic_id(self, topic: str) -> str:
        return self.topic

    def cluster_id(self) -> str:
        return self.cluster

    def of(self, tp: TopicPartition) -> PartitionOffsets:
        return PartitionOffsets(None, 7, self.high[tp.partition], self.topic, self.cluster)


class Group:
    def __init__(self, tmp_path: Path) -> None:
        self.store = JournalStore(tmp_path)
        self.kafka = Kafka()
        self.now = Clock()

    def member(
        self,
        *,
        reset: str | datetime | timedelta = "latest",
        internal: Collection[str] = (),
    ) -> FirstOffsets:
        return FirstOffsets(
            Journal(self.store, "data/t", "group"),
            kafka=self.kafka,
            reset=reset,
            internal=internal,
            now=self.now,
        )

    def first(self, tp: TopicPartition) -> int:
        return self.member().of(tp, self.kafka.of(tp))

    def first_of_several(self, tp: TopicPartition, reset: str | timedelta = "latest", text: str = "") -> int | None:
        """Where it begins in a process of two topics, each with the table of its name; or by the time of the text."""
        journal = Journal(self.store, "data", "group")
        offsets = FirstOffsets(journal, kafka=self.kafka, reset=reset, now=self.now)
        first_topics = offsets.first_topics({"sensors": "sensors", "orders": "orders"}, text)
        journal = Journal(self.store, f"data/{tp.topic}", "group")
        table = FirstOffsets(journal, kafka=self.kafka, reset=reset, now=self.now, first_topics=first_topics)
        if not text:
            return table.of(tp, self.kafka.of(tp))
        followed = table.followed(tp, self.kafka.of(tp), text)
        return followed.committed if followed else None

    def journal(self, tp: TopicPartition, *, cluster_id: str = "one") -> None:
        claim = PartitionClaim(seq=1, owner="ffffffff", cluster_id=cluster_id)
        self.write(tp, CLAIM.body(claim))

    def write(self, tp: TopicPartition, body: bytes) -> None:
        self.store.write(claim_key("data/t", "group", tp), body, replaces=None)


@pytest.fixture
def group(tmp_path: Path) -> Group:
    return Group(tmp_path)


def test_a_time_decides_for_all_partitions_once(group: Group) -> None:
    """A partition without later records begins at its end, and one that is added later with its first record."""
    week_ago = datetime.fromtimestamp(group.now(), UTC) - timedelta(days=7)
    group.kafka.later = {0: 42}
    member = group.member(reset=timedelta(days=7))
    assert [member.of(tp, group.kafka.of(tp)) for tp in (P0, P1)] == [42, 200]
    group.kafka.later = {0: 80, 1: 250}
    group.kafka.high = {0: 150, 1: 300, 2: 10}
    group.now.advance(HOUR)
    again = group.member(reset=timedelta(days=7))
    assert [again.of(tp, group.kafka.of(tp)) for tp in (P0, P1, P2)] == [42, 200, 7]
    assert group.kafka.asked == [week_ago]


def test_a_time_is_followed_as_an_offset_that_a_tool_has_set(group: Group) -> None:
    moment = datetime(2026, 11, 1, tzinfo=UTC)
    group.kafka.later = {0: 42}
    kafka = replace(group.kafka.of(P0), committed=90)
    assert group.member(reset=moment, internal=["sensors"]).followed(P0, kafka, "text") == kafka
    assert group.member(reset=moment).followed(P0, kafka, "text") == replace(kafka, committed=42, is_set=True)
    assert group.kafka.asked == [moment]


def test_a_time_is_reckoned_once_for_each_text_and_for_all_partitions_of_that_moment(group: Group) -> None:
    """Also after a crash before anything was claimed; a partition that is added later does not follow it."""

    def followed(text: str, *tps: TopicPartition) -> list[int | None]:
        member = group.member(reset=timedelta(minutes=1))
        found = [member.followed(tp, group.kafka.of(tp), text) for tp in tps]
        return [None if each is None else each.committed for each in found]

    group.kafka.later = {0: 42}
    assert followed("today", P0) == [42]
    group.now.advance(HOUR)
    group.kafka.later = {0: 80, 1: 150, 2: 5}
    group.kafka.high[2] = 10
    assert followed("today", P0, P1, P2) == [42, 200, None]
    assert followed("tomorrow", P0, P1, P2) == [80, 150, 5]
    group.kafka.topic = "another"
    assert followed("tomorrow", P0) == [None]


def test_a_text_that_was_used_without_a_time_follows_none_that_is_set_later(group: Group) -> None:
    group.kafka.later = {0: 42}
    kafka = replace(group.kafka.of(P0), committed=90)
    assert group.member(reset="latest").followed(P0, kafka, "text") == kafka
    assert group.member(reset=timedelta(days=7)).followed(P0, kafka, "text") == kafka
    assert group.kafka.asked == []


@pytest.mark.parametrize("settings", [{"reset": "earliest"}, {"internal": ["sensors"]}], ids=str)
def test_at_the_earliest_and_of_a_topic_of_the_framework_all_begin_with_the_first_record_and_nothing_is_kept(
    group: Group, settings: dict[str, Any]
) -> None:
    """What is in such a topic was sent on by this group, perhaps while this partition was still to be claimed."""
    assert group.member(**settings).of(P0, group.kafka.of(P0)) == 7
    assert group.store.bodies == {}


def test_a_group_begins_though_kafka_does_not_say_how_many_records_it_passes_over(group: Group) -> None:
    group.kafka.hides_beginnings = True
    assert [group.first(tp) for tp in (P0, P1)] == [*group.kafka.high.values()]


def test_the_first_claim_decides_for_all_partitions_however_long_it_takes(group: Group) -> None:
    group.kafka.committed = {0}
    assert group.first(P0) == 100, "its own offset alone does not make a group an old one"
    group.kafka.committed = set()
    group.kafka.high = {0: 150, 1: 250}
    group.now.advance(1_000 * HOUR)
    assert group.first(P0) == 100, "after a crash before anything was committed"
    group.kafka.committed = {0}
    assert group.first(P1) == 200


@pytest.mark.parametrize("what", ["added", "others are committed", "another has a journal", "the topic is another one"])
def test_a_partition_that_is_new_to_the_group_begins_with_its_first_record(group: Group, what: str) -> None:
    tp = P1
    if what == "added":
        group.first(P0)
        group.kafka.committed = {0, 1}
        group.kafka.high[2], tp = 300, P2
    elif what == "others are committed":  # it began with ``earliest``, or with another program
        group.kafka.committed = {0}
    elif what == "another has a journal":
        group.journal(P0)
    else:
        group.first(P0)
        group.kafka.topic = "another"
    assert group.first(tp) == 7


def test_members_that_claim_at_the_same_time_agree(group: Group) -> None:
    """Each has found nothing, and asks for the ends at another moment."""
    together = threading.Barrier(2, timeout=PATIENCE)
    has_met = threading.local()

    def meet(what: str, _: str) -> None:
        if what == "read" and not hasattr(has_met, "yes"):
            has_met.yes = True
            together.wait()

    ends = group.kafka.ends
    moments = iter((0, 1_000))

    def later(topic: str) -> dict[TopicPartition, int]:
        moment = next(moments)
        return {tp: end + moment for tp, end in ends(topic).items()}

    group.store.on_small = meet
    group.kafka.ends = later  # type: ignore[method-assign]
    group.kafka.high = {0: 5_000, 1: 5_000}
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(group.first, (P0, P1)))
    assert found[0] == found[1]


def test_where_an_id_is_unknown_the_beginning_stays(group: Group) -> None:
    group.first(P0)
    group.kafka.topic = group.kafka.cluster = ""
    assert group.first(P1) == 200


def test_another_cluster_has_a_beginning_of_its_own(group: Group) -> None:
    group.first(P0)
    group.journal(P0)
    group.kafka.cluster = "two"
    group.kafka.high = {0: 10, 1: 20}
    assert (group.first(P0), group.first(P1)) == (10, 20)


def test_what_has_expired_is_not_asked_for(group: Group) -> None:
    group.first(P0)
    assert group.member().of(P0, replace(group.kafka.of(P0), low=120, high=150)) == 120


@pytest.mark.parametrize(("body", "wrong"), [("", "Invalid JSON"), ("{}", "topic_id")])
def test_an_object_that_cannot_be_parsed_is_fatal(group: Group, tmp_path: Path, body: str, wrong: str) -> None:
    group.first(P0)
    (path,) = tmp_path.rglob("first-offsets")
    path.write_text(body)
    with pytest.raises(FatalError, match=rf"reading .*/sensors/first-offsets: {wrong}.*Otherwise delete it"):
        group.first(P1)


class TestSeveralTopics:
    def test_begin_where_the_group_began_however_late_their_tables_are_opened(self, group: Group) -> None:
        assert group.first_of_several(P0) == 100
        group.kafka.high = {0: 150, 1: 250, 2: 10}
        assert [group.first_of_several(tp) for tp in (ORDERS, P1, P2)] == [100, 200, 7]

    def test_follow_the_time_of_the_first_start_with_a_text(self, group: Group) -> None:
        group.kafka.later = {0: 42}
        assert group.first_of_several(P0, timedelta(minutes=1), "today") == 42
        group.now.advance(HOUR)
        group.kafka.later = {0: 80}
        assert group.first_of_several(ORDERS, timedelta(minutes=1), "today") == 42
        assert group.first_of_several(ORDERS, timedelta(minutes=1), "tomorrow") == 80
        assert group.first_of_several(P0, "latest", "the day after") is None

    @pytest.mark.parametrize("what", ["an offset", "a journal"])
    @pytest.mark.parametrize("reset", ["latest", timedelta(days=7)])
    def test_that_are_added_to_those_of_a_group_begin_with_their_first_records(
        self, group: Group, what: str, reset: str | timedelta
    ) -> None:
        if what == "an offset":
            group.kafka.committed = {0}
        else:
            claim = CLAIM.body(PartitionClaim(seq=1, owner="ffffffff", cluster_id="one"))
            group.store.write(claim_key("data/sensors", "group", P0), claim, replaces=None)
        assert group.first_of_several(ORDERS, reset) == 7
        assert group.first_of_several(ORDERS, reset, "today") is None
