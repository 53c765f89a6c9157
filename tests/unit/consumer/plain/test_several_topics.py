"""The loop of the plain lane over several topics, each with a member of its own."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from app.bad_records.refusals import BadRecords
from app.consumer.plain.intake import Intake
from app.consumer.plain.loop import PlainLoop
from app.delivery.members import Members
from app.delivery.runtime import Threads
from app.delivery.topic import NewTable, Open
from app.errors import ConfigError, FatalError, RetryableError, SparkLostError
from app.journal.journal import FencedError
from app.kafka.watch import recreated_error
from app.model import TopicPartition
from tests.fakes.clock import Clock
from tests.fakes.kafka_message import KafkaMessage
from tests.fakes.manual_member import CLOSED, ManualMember
from tests.fakes.played_client import PlayedClient
from tests.faults.lanes import AtOnce

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
GONE = KafkaMessage(None, of_topic="b", failure=KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))


class Bench:
    """Topic ``a`` has its table from the beginning; that of ``b`` may be opened later."""

    def __init__(self) -> None:
        self.client = PlayedClient()
        for tp in (A0, A1, B0):
            self.client.produce(tp, *[b'{"v":1}'] * 3)
        self.client.give(A0, A1, B0)
        self.a = ManualMember()
        self.clock = self.a.clock
        self.b = ManualMember(self.clock)
        self.a.flow.buffer.is_shared = True
        self.b.flow.buffer = self.a.flow.buffer
        self.b.flow.share = self.a.flow.buffer.new_share()
        self.opening = NewTable()
        self.closed: list[str] = []
        runtime = replace(self.a.runtime, now=self.clock, threads=Threads(new_pool=lambda *_: AtOnce()))
        topics = {"a": Open(self.a, lambda: self.closed.append("a"))}
        self.members = Members(self.a.group, self.a.flow.buffer, runtime, topics, self._open)
        played: Any = self.client
        intake = Intake(1_000, BadRecords("dead-letter", lambda _: None))
        self.loop = PlainLoop(played, intake, self.members, self._turn)
        self._steps: list[Callable[[], object]] = []

    def _open(self, *_: object) -> NewTable:
        return self.opening

    def set_open(self) -> None:
        self.opening.set_result(Open(self.b, lambda: self.closed.append("b")))

    def open_again(self) -> None:
        """From now on ``b`` can be opened, and it is time."""
        self.b = ManualMember(self.clock)
        self.opening = NewTable()
        self.set_open()
        self.clock.advance(61)

    def _turn(self, _: bool) -> None:
        if self._steps:
            self._steps.pop(0)()
        else:
            self.loop.stop()

    def run(self, *steps: Callable[[], object]) -> bool:
        """Run the loop: a turn before each step and after the last."""
        self._steps = [*steps]
        return self.loop.run("a", "b")


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def both(bench: Bench) -> Bench:
    bench.set_open()
    return bench


def _turn() -> None: ...


def test_records_go_to_the_member_of_their_topic_and_one_commit_has_the_offsets_of_all(both: Bench) -> None:
    assert both.run(_turn, _turn)
    assert {piece.tp for piece in both.a.pieces} == {A0, A1}
    assert {piece.tp for piece in both.b.pieces} == {B0}
    assert both.client.commits[-1] == {A0: 3, A1: 3, B0: 3}


def test_the_first_is_read_while_the_table_of_the_second_is_opened(bench: Bench) -> None:
    def look() -> None:
        assert bench.loop.consumption().unclaimed == {B0}
        assert not bench.loop.is_read(B0)
        bench.set_open()

    bench.run(_turn, look, _turn, _turn)
    assert bench.client.committed == {A0: 3, A1: 3, B0: 3}


def test_what_is_taken_away_while_its_table_is_opened_is_not_begun(bench: Bench) -> None:
    def take_away() -> None:
        bench.client.take_away()
        bench.client.give(A0)

    bench.run(_turn, take_away, bench.set_open, _turn)
    assert bench.b.closed == []


def test_a_topic_without_a_table_is_passed_over(bench: Bench) -> None:
    bench.opening.set_result("its name is too long")
    assert bench.run(_turn, _turn)
    assert bench.client.committed == {A0: 3, A1: 3}
    assert set(bench.loop.consumption().tps) == set()
    assert bench.loop.consumption().left_out == {"b": "its name is too long"}


def test_other_threads_see_all_assigned_partitions_while_their_tables_begin_and_end_one_by_one(both: Bench) -> None:
    seen: list[set[TopicPartition]] = []
    for member in (both.a, both.b):
        member.on_change = lambda: seen.append(set(both.loop.consumption().tps))
    both.run(_turn, lambda: both.a.fence(CLOSED), _turn)
    assert {A0, A1, B0} in seen
    assert all(tps in (set(), {A0, A1, B0}) for tps in seen)


def test_a_revocation_does_not_wait_for_a_batch_of_a_topic_that_was_deleted(both: Bench) -> None:
    both.b.flow.on_wait = lambda: None
    both.b.flow.obstacle = RetryableError("asking Kafka for the id of topic b", "it does not exist").of("topic")

    def take_away() -> None:
        before = both.clock()
        both.client.take_away()
        assert both.clock() - before < both.members.runtime.timings.revoke_seconds / 10
        both.client.give(A0, A1)

    assert both.run(_turn, take_away, _turn)
    assert both.client.committed == {A0: 3, A1: 3, B0: 0}


def test_a_revocation_waits_little_for_a_table_whose_catalog_is_away(both: Bench) -> None:
    both.b.flow.on_wait = lambda: None
    both.b.flow.obstacle = RetryableError("registering files", "the catalog answered 503").of("catalog")
    times: list[float] = []

    def take_away() -> None:
        both.client.take_away()
        both.client.give(A0, A1)
        times.append(both.clock())

    assert both.run(_turn, _turn, take_away, lambda: times.append(both.clock()), _turn)
    assert times[1] - times[0] < both.members.runtime.timings.revoke_seconds / 9
    assert both.client.committed[A0] == 3


class TestATableIsSuspended:
    def test_that_cannot_be_opened_until_it_can(self, bench: Bench) -> None:
        bench.opening.set_exception(ConfigError("opening the table", "it contradicts the settings"))

        def look() -> None:
            now = bench.loop.consumption()
            assert now.suspended["b"].trouble.cause == "it contradicts the settings"
            assert (set(now.tps), set(now.unclaimed)) == ({A0, A1, B0}, set())

        assert bench.run(_turn, look, bench.open_again, _turn, _turn)
        assert bench.client.committed == {A0: 3, A1: 3, B0: 3}
        assert bench.members.suspended == {}

    def test_until_it_is_time_though_the_clock_on_the_wall_is_set_back(self, bench: Bench) -> None:
        bench.opening.set_exception(ConfigError("opening the table", "it contradicts the settings"))
        wall = Clock()
        bench.members.runtime = replace(bench.members.runtime, now=wall)
        bench.run(_turn, lambda: wall.advance(-3_600), bench.open_again, _turn, _turn)
        assert bench.client.committed == {A0: 3, A1: 3, B0: 3}

    def test_that_fails_and_what_it_held_is_let_go(self, both: Bench) -> None:
        failed = both.b
        failed.deliver = failed.flow.on_wait = lambda: None  # type: ignore[method-assign]

        def look() -> None:
            assert both.closed == ["b"]
            assert B0 in both.members.runtime.metrics.counts().positions, "its lag is still told"
            assert failed.assignment is None
            both.a.deliver()
            assert both.members.buffer.held_bytes == 0
            both.client.produce(A0, b'{"v":1}')

        def fail() -> None:
            failed.flow.fail(FatalError("uploading", "access denied"))

        assert both.run(_turn, fail, look, _turn, both.open_again, _turn, _turn)
        assert both.client.committed == {A0: 4, A1: 3, B0: 3}
        assert both.members.runtime.metrics.counts().positions == {}

    def test_that_others_take_over(self, both: Bench) -> None:
        def gone() -> None:
            both.b.fence(FencedError("it is gone"))

        def look() -> None:
            assert both.members.suspended["b"].trouble.cause == "it is gone"

        both.run(_turn, gone, lambda: both.clock.advance(21), look)

    def test_of_a_topic_that_was_recreated(self, both: Bench) -> None:
        def recreate() -> None:
            errors = [recreated_error(B0, "it has another id")] * 2  # the second is of before
            both.members.group.watch.take_found = lambda: errors.pop() if errors else None  # type: ignore[method-assign]

        def look() -> None:
            assert "recreated" in both.members.suspended["b"].trouble.cause

        both.run(_turn, recreate, look)

    def test_whose_partitions_fail_in_one_poll(self, both: Bench) -> None:
        error = KafkaError(KafkaError._AUTO_OFFSET_RESET)

        def fail() -> None:
            both.client.failures = [
                KafkaMessage(None, of_topic="a", of_partition=tp.partition, failure=error) for tp in (A0, A1)
            ]
            both.client.produce(B0, b'{"v":1}')

        def look() -> None:
            assert set(both.members.suspended) == {"a"}

        assert both.run(_turn, fail, look, _turn)
        assert both.client.committed[B0] == 4

    def test_but_all_of_them_end_the_process(self, both: Bench) -> None:
        def fail() -> None:
            for member in (both.a, both.b):
                member.flow.fail(FatalError("uploading", "access denied"))

        with pytest.raises(FatalError, match="access denied"):
            both.run(_turn, fail, _turn)

    def test_but_not_for_what_is_of_the_whole_process(self, both: Bench) -> None:
        with pytest.raises(SparkLostError):
            both.run(_turn, lambda: both.b.flow.fail(SparkLostError("writing", "Java died")), _turn)


def test_only_the_table_whose_log_was_closed_is_claimed_again(both: Bench) -> None:
    both.run(_turn, lambda: both.b.fence(CLOSED), _turn, _turn)
    assert both.a.closed == [None]
    assert both.b.closed == [None, str(CLOSED)]
    assert both.client.committed == {A0: 3, A1: 3, B0: 3}


def test_a_topic_that_does_not_exist_any_more_leaves_the_others_alone(both: Bench) -> None:
    def delete() -> None:
        both.client.failures = [GONE, GONE]

    def look() -> None:
        assert set(both.loop.consumption().tps) == {A0, A1}
        assert both.loop.consumption().deleted == ["b"]
        assert both.b.assignment is None
        both.client.produce(A0, b'{"v":1}')

    def make_anew() -> None:
        both.client.take_away()
        both.client.give(A0, A1, B0)

    assert both.run(_turn, delete, look, make_anew, _turn)
    assert both.client.committed[A0] == 4
    assert both.loop.consumption().deleted == []


def test_a_table_with_half_of_the_buffer_leaves_the_rest_to_the_others(both: Bench) -> None:
    half = both.members.buffer.limits.max_buffer_bytes // 2

    def look() -> None:
        assert both.client.paused == {B0}
        both.b.flow.share.hold(-half)

    both.run(_turn, lambda: both.b.flow.share.hold(half), look, _turn)
    assert both.client.paused == set()


def test_the_buffer_is_one_for_all(both: Bench) -> None:
    both.run(_turn, lambda: both.b.flow.share.hold(2_000_000), lambda: both.clock.advance(6), _turn)
    assert both.client.paused == {A0, A1, B0}
