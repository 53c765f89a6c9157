"""The states of topics: how each follows from the one before, without a consumer."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.delivery.members import Members
from app.delivery.runtime import Runtime, Threads
from app.delivery.topic import NewTable, Open, Suspended
from app.errors import ConfigError, FatalError
from app.model import TopicPartition
from app.monitoring.metrics import Metrics
from app.timings import Timings
from tests.fakes.manual_member import ManualMember
from tests.faults.lanes import AtOnce

A0, B0 = TopicPartition("a", 0), TopicPartition("b", 0)
DENIED = FatalError("uploading", "access denied")


class Bench:
    """``a`` is open; the next table that is opened is ``new``."""

    def __init__(self) -> None:
        self.a = ManualMember()
        self.clock = self.a.clock
        self.a.flow.buffer.is_shared = True
        runtime = replace(self.a.runtime, now=self.clock, threads=Threads(new_pool=lambda *_: AtOnce()))
        self.new = NewTable()
        self.opened: list[str] = []
        self.closed: list[str] = []
        topics = {"a": Open(self.a, lambda: self.closed.append("a"))}
        self.members = Members(self.a.group, self.a.flow.buffer, runtime, topics, self._open)

    def _open(self, topic: str, is_again: bool) -> NewTable:
        self.opened.append(f"{topic} again" if is_again else topic)
        return self.new

    def new_member(self) -> ManualMember:
        """What has come of opening the table."""
        member = ManualMember(self.clock)
        self.new.set_result(Open(member, lambda: self.closed.append("new")))
        return member


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_topic_without_a_table_is_asked_for_again_at_the_next_assignment(bench: Bench) -> None:
    bench.new.set_result("it has the name of another one")
    bench.members.assign([A0, B0])
    assert bench.members.left_out == {"b": "it has the name of another one"}
    assert bench.members.assigned == (A0,)
    bench.new = NewTable()
    bench.members.assign([A0, B0])
    assert bench.members.left_out == {}
    assert bench.opened == ["b", "b"]


def test_a_topic_that_is_none_of_ours_is_no_topic_that_is_left_out(bench: Bench) -> None:
    bench.new.set_result("")
    bench.members.assign([A0, B0])
    assert (bench.members.left_out, bench.members.assigned) == ({}, (A0,))


def test_a_table_that_is_open_again_and_fails_soon_is_suspended_for_longer(bench: Bench) -> None:
    bench.new.set_exception(ConfigError("opening the table", "it contradicts the settings"))
    bench.members.assign([A0, B0])
    first = bench.members.suspended["b"]
    assert (first.tries, first.pause) == (1, 60)
    bench.clock.advance(60)
    bench.new = NewTable()
    bench.members.begin_waiting()
    assert bench.members.suspended == {}, "it is being opened"
    bench.new_member()
    bench.members.begin_waiting()
    bench.members.suspend("b", DENIED)
    assert bench.closed == ["new"]
    assert bench.opened == ["b", "b again"]
    second = bench.members.suspended["b"]
    assert (second.tries, second.pause, second.since) == (2, 120, first.since)


def test_a_table_that_fails_by_a_bug_while_it_is_opened_is_suspended_too(bench: Bench) -> None:
    bench.new.set_exception(IndexError("list index out of range"))
    bench.members.assign([A0, B0])
    assert "IndexError" in bench.members.suspended["b"].trouble.cause
    assert {tp for each in bench.members.assignments for tp in each.partitions} == {A0}


def test_a_table_that_was_well_for_long_is_suspended_as_for_the_first_time(bench: Bench) -> None:
    bench.members.assign([A0])
    bench.members.suspend("a", DENIED)
    bench.clock.advance(60)
    bench.new_member()
    bench.members.begin_waiting()
    bench.clock.advance(1_800)
    bench.members.suspend("a", DENIED)
    assert (bench.members.suspended["a"].tries, bench.members.suspended["a"].since) == (1, bench.clock())


def test_a_table_stays_suspended_for_half_an_hour_at_most_however_often_it_fails(bench: Bench) -> None:
    runtime, suspended = bench.members.runtime, None
    for _ in range(2_000):
        suspended = Suspended.after(DENIED, suspended, runtime)
    assert suspended is not None
    assert (suspended.tries, suspended.pause) == (2_000, 1_800)


def test_a_run_with_an_end_leaves_it_to_the_next_one(bench: Bench) -> None:
    timings = Timings(clock=bench.clock, first_suspension_seconds=math.inf)
    bench.members.runtime = Runtime(Path(), Metrics(timings=timings), timings, now=bench.clock)
    bench.members.assign([A0])
    bench.members.suspend("a", DENIED)
    bench.clock.advance(1e9)
    bench.members.begin_waiting()
    assert bench.opened == []
    with pytest.raises(FatalError, match="access denied"):
        bench.members.raise_failure(also_suspended=True)


class TestADeletedTopic:
    def test_goes_on_with_its_open_table(self, bench: Bench) -> None:
        bench.members.assign([A0])
        bench.members.note_deleted("a")
        bench.members.note_deleted("a")  # Kafka's client repeats itself
        assert (bench.members.deleted, bench.members.assigned, bench.members.assignments) == (["a"], (), [])
        bench.members.assign([])
        assert bench.members.deleted == ["a"], "over rebalances"
        bench.members.assign([A0])
        assert (bench.members.deleted, bench.members.of("a"), bench.opened) == ([], bench.a, [])

    def test_goes_on_with_a_table_that_was_being_opened(self, bench: Bench) -> None:
        bench.members.assign([A0, B0])
        bench.members.note_deleted("b")
        b = bench.new_member()
        bench.members.assign([A0, B0])
        assert (bench.members.of("b"), bench.opened) == (b, ["b"])

    def test_has_no_lag_any_more_also_where_its_table_was_suspended(self, bench: Bench) -> None:
        bench.members.assign([A0, B0])
        bench.members.runtime.metrics.begins(A0, 0)
        bench.members.suspend("a", DENIED)
        bench.members.note_deleted("a")
        assert bench.members.runtime.metrics.counts().positions == {}, "Kafka would be asked for its end, in vain"

    def test_is_asked_for_again_if_it_had_none(self, bench: Bench) -> None:
        bench.new.set_result("it has the name of another one")
        bench.members.assign([A0, B0])
        bench.members.note_deleted("b")
        assert (bench.members.deleted, bench.members.left_out) == (["b"], {})
        bench.members.assign([A0, B0])
        assert bench.opened == ["b", "b"]


def test_a_stop_closes_all_tables_once_also_those_of_deleted_topics(bench: Bench) -> None:
    bench.members.assign([A0, B0])
    bench.new_member()
    bench.members.begin_waiting()
    bench.members.note_deleted("a")
    bench.members.stop()
    assert sorted(bench.closed) == ["a", "new"]


def test_one_table_takes_all_topics_and_what_fails_in_it_is_raised(bench: Bench) -> None:
    member: Any = bench.a
    member.flow.buffer.is_shared = False
    members = Members.of_one("a", member)
    members.assign([A0, B0])
    assert (members.of("b"), members.all) == (member, (member,))
    assert [*members.assignments[0].partitions] == [A0, B0]
    members.note_deleted("b")
    assert [*members.assignments[0].partitions] == [A0]
    with pytest.raises(FatalError, match="access denied"), members.suspending_on_error("a"):
        raise DENIED
