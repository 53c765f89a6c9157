"""The loop of the plain lane over several topics, each with a member of its own."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError

from app.bad_records.refusals import BadRecords
from app.consumer.plain.intake import Intake
from app.consumer.plain.loop import PlainLoop
from app.delivery.member import Member
from app.delivery.members import Members
from app.errors import ConfigError, FatalError
from app.journal.journal import FencedError
from app.model import TopicPartition
from tests.fakes.kafka_message import KafkaMessage
from tests.fakes.manual_member import CLOSED, ManualMember
from tests.fakes.played_client import PlayedClient
from tests.unit.consumer.consumer_bench import ConsumerBench

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
GONE = KafkaMessage(None, of_topic="b", failure=KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))


class Bench(ConsumerBench):
    """Topic ``a`` has its table from the beginning; that of ``b`` may be opened later."""

    def __init__(self) -> None:
        super().__init__()
        self.client = PlayedClient()
        for tp in (A0, A1, B0):
            self.client.produce(tp, *[b'{"v":1}'] * 3)
        self.client.give(A0, A1, B0)
        self.a, self.b = self.member, ManualMember(self.clock, self.member.flow.buffer.limits)
        self.b.flow.buffer = self.a.flow.buffer
        self.opening: Future[Member | None] = Future()
        self.members = Members(self.a.group, self.a.flow.buffer, self.a.runtime, {"a": self.a}, lambda _: self.opening)
        played: Any = self.client
        intake = Intake(1_000, BadRecords("dead-letter", lambda _: None))
        self.loop = PlainLoop(played, intake, self.members, self._turn)
        self._steps: list[Callable[[], object]] = []

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
    bench.opening.set_result(bench.b)
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
        bench.opening.set_result(bench.b)

    bench.run(_turn, look, _turn, _turn)
    assert bench.client.committed == {A0: 3, A1: 3, B0: 3}


def test_what_is_taken_away_while_its_table_is_opened_is_not_begun(bench: Bench) -> None:
    def take_away() -> None:
        bench.client.take_away()
        bench.client.give(A0)

    bench.run(_turn, take_away, lambda: bench.opening.set_result(bench.b), _turn)
    assert bench.b.closed == []


def test_a_topic_without_a_table_is_passed_over(bench: Bench) -> None:
    bench.opening.set_result(None)
    assert bench.run(_turn, _turn)
    assert bench.client.committed == {A0: 3, A1: 3}
    assert set(bench.loop.consumption().tps) == set()


def test_a_table_that_cannot_be_opened_ends_all(bench: Bench) -> None:
    bench.opening.set_exception(ConfigError("opening the table", "it contradicts the settings"))
    with pytest.raises(ConfigError):
        bench.run(_turn)


def test_only_the_table_whose_log_was_closed_is_claimed_again(both: Bench) -> None:
    both.run(_turn, lambda: both.b.fence(CLOSED), _turn, _turn)
    assert both.a.closed == [None]
    assert both.b.closed == [None, str(CLOSED)]
    assert both.client.committed == {A0: 3, A1: 3, B0: 3}


def test_one_table_that_fails_or_is_gone_ends_all(both: Bench) -> None:
    both.b.flow.fail(FatalError("uploading", "access denied"))
    with pytest.raises(FatalError, match="access denied"):
        both.run(_turn)
    again = Bench()
    again.opening.set_result(again.b)
    with pytest.raises(Exception, match="it is gone"):
        again.run(_turn, lambda: again.b.fence(FencedError("it is gone")), lambda: again.clock.advance(21), _turn)


def test_a_topic_that_does_not_exist_any_more_leaves_the_others_alone(both: Bench) -> None:
    def delete() -> None:
        both.client.failures = [GONE, GONE]

    def look() -> None:
        assert set(both.loop.consumption().tps) == {A0, A1}
        both.client.produce(A0, b'{"v":1}')

    assert both.run(_turn, delete, look, _turn)
    assert both.client.committed[A0] == 4
    assert both.b.assignment is None


def test_the_buffer_is_one_for_all(both: Bench) -> None:
    both.run(_turn, lambda: both.b.flow.buffer.hold(2_000_000), lambda: both.clock.advance(6), _turn)
    assert both.client.paused == {A0, A1, B0}
