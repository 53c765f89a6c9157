"""Partitions wait for their claims: paused before, read from the right offset after."""

import logging
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition

from app.consumer.assignment import Assignments
from app.consumer.paused_partitions import PausedPartitions
from app.errors import FatalError, RetryableError
from app.journal.start_offset import Start
from app.model import TopicPartition
from tests.fakes.instant_claims import InstantClaims

P0, P1 = TopicPartition("sensors", 0), TopicPartition("sensors", 1)
TOKENS = {P0: "aaaaaaaa", P1: "bbbbbbbb"}


class PlayedConsumer:
    """What the framework's consumer does to the partitions; ``calls`` has it in its order."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.paused: set[TopicPartition] = set()
        self.positions: dict[TopicPartition, int] = {}
        self.backpressured_tps: set[tuple[str, int]] = set()
        self.seek_errors: list[int] = []
        self.commit_errors: list[int] = []
        self.committed: list[tuple[TopicPartition, int]] = []

    def pause(self, partitions: list[KafkaTopicPartition]) -> None:
        self.paused |= {ours(partition) for partition in partitions}

    def resume(self, partitions: list[KafkaTopicPartition]) -> None:
        self.calls += [f"resume {partition.partition}" for partition in partitions]
        self.paused -= {ours(partition) for partition in partitions}

    def seek(self, partition: KafkaTopicPartition) -> None:
        if self.seek_errors:
            raise KafkaException(KafkaError(self.seek_errors.pop(0)))
        self.calls.append(f"seek {partition.partition} to {partition.offset}")
        self.positions[ours(partition)] = partition.offset

    def commit(self, *, offsets: list[KafkaTopicPartition], asynchronous: bool) -> list[Any]:
        assert asynchronous
        if self.commit_errors:
            raise KafkaException(KafkaError(self.commit_errors.pop(0)))
        self.committed += [(ours(offset), offset.offset) for offset in offsets]
        return offsets

    def begin_backpressure(self) -> None:
        """All assigned partitions are paused."""
        self.backpressured_tps = {*TOKENS}
        self.paused |= TOKENS.keys()

    def end_backpressure(self) -> None:
        """It resumes all partitions that it paused: it does not know that some were paused before."""
        self.backpressured_tps = set()
        self.paused -= TOKENS.keys()


def ours(partition: KafkaTopicPartition) -> TopicPartition:
    return TopicPartition(partition.topic, partition.partition)


class Bench:
    def __init__(self) -> None:
        self.consumer = PlayedConsumer()
        self.claims = InstantClaims()
        self.assignments = Assignments()
        self.assignments.begin(TOKENS)
        self.admission = PausedPartitions(self.consumer, self.claims, self.assignments)


def warnings(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    return [(record.levelno, record.getMessage()) for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.fixture
def bench() -> Bench:
    return Bench()


# --- from paused to read --------------------------------------------------------------------------------------------


def test_partitions_are_paused_until_they_are_claimed(bench: Bench) -> None:
    bench.claims.held_back = {P0, P1}
    bench.admission.begin([P0, P1], "aaaaaaaa")
    assert bench.consumer.paused == {P0, P1}
    for _ in range(3):
        bench.admission.turn()
        assert bench.consumer.paused == {P0, P1}
    assert bench.consumer.calls == []


def test_partitions_are_paused_before_their_claims_begin(bench: Bench) -> None:
    paused = []
    begin = bench.claims.begin

    def look_and_begin(tps: Any, token: str, closed: str | None = None) -> None:
        paused.append(set(bench.consumer.paused))
        begin(tps, token, closed)

    bench.claims.begin = look_and_begin  # type: ignore[method-assign]
    bench.admission.begin([P0, P1], "aaaaaaaa")
    assert paused == [{P0, P1}]


def test_each_partition_goes_on_as_soon_as_its_own_claim_is_through(bench: Bench) -> None:
    bench.claims.starts = {P0: Start(42), P1: Start(7)}
    bench.claims.held_back = {P1}
    bench.admission.begin([P0, P1], "aaaaaaaa")
    bench.admission.turn()
    assert (bench.consumer.paused, bench.consumer.positions) == ({P1}, {P0: 42})
    bench.claims.held_back.clear()
    bench.admission.turn()
    assert (bench.consumer.paused, bench.consumer.positions) == (set(), {P0: 42, P1: 7})


def test_no_record_before_the_claim_is_expected_from_then_on(bench: Bench) -> None:
    bench.claims.starts = {P0: Start(42)}
    bench.admission.begin([P0], "aaaaaaaa")
    assert bench.assignments.expected(P0) == 0
    bench.admission.turn()
    assert bench.assignments.expected(P0) == 42


def test_a_client_that_went_back_is_sent_on_again(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    bench.admission.seek_to_expected(P0, given=3, expected=42)
    assert bench.consumer.calls == ["seek 0 to 42"]
    assert "sensors[0]: the Kafka client went back to offset 3; sent on to 42 again" in caplog.text
    assert not warnings(caplog), "there is nothing to be done about it"


def test_in_a_recreated_topic_no_offset_of_the_former_one_is_sought(bench: Bench) -> None:
    bench.claims.made_anew = {"sensors"}
    with pytest.raises(RetryableError, match=r"consuming sensors\[0\]: Kafka gives offset 3 where 42 .* recreated"):
        bench.admission.seek_to_expected(P0, given=3, expected=42)
    assert bench.consumer.calls == []


def test_after_a_pause_a_recreated_topic_is_not_read_on(bench: Bench) -> None:
    bench.admission.begin([P0, P1], "aaaaaaaa")
    bench.admission.turn()
    bench.admission.check_topics(TOKENS)
    bench.claims.made_anew = {"sensors"}
    with pytest.raises(RetryableError, match=r"consuming sensors\[\d\]: it has another id .* recreated"):
        bench.admission.check_topics(TOKENS)


def test_what_waits_for_its_claim_is_looked_at_there(bench: Bench) -> None:
    bench.claims.held_back = {P0, P1}
    bench.admission.begin([P0, P1], "aaaaaaaa")
    bench.claims.made_anew = {"sensors"}
    bench.admission.check_topics(TOKENS)


def test_a_client_that_cannot_be_sent_on_is_worth_a_restart(bench: Bench) -> None:
    bench.consumer.seek_errors = [KafkaError._STATE]
    with pytest.raises(RetryableError, match=r"going to offset 42 of sensors\[0\]"):
        bench.admission.seek_to_expected(P0, given=3, expected=42)


def test_what_is_admitted_is_left_alone_from_then_on(bench: Bench) -> None:
    bench.admission.begin([P0, P1], "aaaaaaaa")
    bench.admission.turn()
    calls = [*bench.consumer.calls]
    bench.consumer.pause([KafkaTopicPartition(*P0)])  # by whomever
    bench.admission.turn()
    assert bench.consumer.calls == calls
    assert bench.consumer.paused == {P0}


def test_a_client_that_is_not_that_far_is_asked_again(bench: Bench) -> None:
    """Right after an assignment a partition cannot be sought in yet."""
    bench.consumer.seek_errors = [KafkaError._STATE, KafkaError._STATE]
    bench.claims.starts = {P0: Start(42)}
    bench.admission.begin([P0], "aaaaaaaa")
    for _ in range(2):
        bench.admission.turn()
        assert (bench.consumer.calls, bench.consumer.paused) == ([], {P0})
    bench.admission.turn()
    assert bench.consumer.calls == ["seek 0 to 42", "resume 0", "seek 0 to 42"], "the last seek wakes the client"


def test_a_claim_that_failed_for_good_is_raised(bench: Bench) -> None:
    def fail() -> list[Any]:
        raise FatalError("reading the journal", "access denied")

    bench.claims.finished = fail  # type: ignore[method-assign]
    bench.admission.begin([P0, P1], "aaaaaaaa")
    with pytest.raises(FatalError, match="access denied"):
        bench.admission.turn()


# --- during back-pressure -------------------------------------------------------------------------------------------


def test_claims_that_came_through_during_back_pressure_count_after_it(bench: Bench) -> None:
    bench.claims.starts = {P0: Start(42), P1: Start(7)}
    bench.admission.begin([P0, P1], "aaaaaaaa")
    bench.consumer.begin_backpressure()
    bench.admission.turn()
    assert (bench.consumer.calls, bench.consumer.paused) == ([], {P0, P1})
    bench.consumer.end_backpressure()
    bench.admission.turn()
    assert bench.consumer.positions == {P0: 42, P1: 7}
    assert bench.consumer.paused == set()


def test_the_end_of_back_pressure_does_not_resume_what_is_not_claimed(bench: Bench) -> None:
    bench.claims.held_back = {P1}
    bench.admission.begin([P0, P1], "aaaaaaaa")
    bench.admission.turn()
    bench.consumer.begin_backpressure()
    bench.admission.turn()
    bench.consumer.end_backpressure()
    bench.admission.turn()
    assert bench.consumer.paused == {P1}


# --- the group's offset ---------------------------------------------------------------------------------------------


def test_the_group_gets_the_offset_at_which_a_partition_begins(bench: Bench) -> None:
    bench.claims.starts = {P0: Start(100)}
    bench.admission.begin([P0], "aaaaaaaa")
    bench.admission.turn()
    assert bench.consumer.committed == [(P0, 100)]


def test_a_commit_that_fails_is_logged_and_blocks_nothing(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.claims.starts = {P0: Start(100)}
    bench.consumer.commit_errors = [KafkaError.REBALANCE_IN_PROGRESS]
    bench.admission.begin([P0], "aaaaaaaa")
    bench.admission.turn()
    assert "the group's offset is not committed yet" in caplog.text
    assert bench.consumer.paused == set()


# --- what the user hears --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("is_loss", "level"), [(True, logging.ERROR), (False, logging.WARNING)])
def test_a_remark_is_logged_once_and_a_loss_as_an_error(
    bench: Bench, caplog: pytest.LogCaptureFixture, level: int, *, is_loss: bool
) -> None:
    caplog.set_level(logging.DEBUG)
    bench.consumer.seek_errors = [KafkaError._STATE]
    bench.claims.starts = {P0: Start(42, "offsets 1 to 41 are gone", is_loss=is_loss)}
    bench.admission.begin([P0], "aaaaaaaa")
    for _ in range(3):
        bench.admission.turn()
    assert warnings(caplog) == [(level, "sensors[0]: offsets 1 to 41 are gone")]
    losses = [what for _, what in bench.admission._metrics.counts().losses]
    assert losses == (["sensors[0]: offsets 1 to 41 are gone"] if is_loss else [])


def test_rows_skipped_are_counted_in_one_warning_that_says_how_to_read_them_again(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.claims.starts = {P0: Start(2_000, skipped=1_200), P1: Start(5, skipped=3)}
    bench.admission.begin([P0, P1], "aaaaaaaa")
    bench.admission.turn()
    ((level, text),) = warnings(caplog)
    assert level == logging.WARNING
    assert text.startswith("1,203 records after the group's committed offset are in the table already")
    assert "(sensors[0]: 1,200, sensors[1]: 3)" in text
    assert "FOLLOW_OFFSETS" in text


def test_an_ordinary_start_is_no_reason_to_worry(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    bench.admission.begin([P0, P1], "aaaaaaaa")
    bench.admission.turn()
    assert warnings(caplog) == []


# --- partitions that end --------------------------------------------------------------------------------------------


def test_a_partition_given_away_while_it_waits_is_not_touched_any_more(bench: Bench) -> None:
    bench.claims.held_back = {P1}
    bench.admission.begin([P0, P1], "aaaaaaaa")
    bench.admission.turn()
    bench.admission.end([P1])
    bench.consumer.paused.clear()  # it is gone from the client
    bench.claims.held_back.clear()
    calls = [*bench.consumer.calls]
    bench.admission.turn()
    bench.admission.turn()
    assert (bench.consumer.calls, bench.consumer.paused) == (calls, set())


def test_a_partition_given_away_after_its_claim_and_before_its_turn_is_not_read(bench: Bench) -> None:
    bench.admission.begin([P0, P1], "aaaaaaaa")
    bench.consumer.begin_backpressure()
    bench.admission.turn()
    bench.admission.end([P1])
    bench.consumer.end_backpressure()
    bench.admission.turn()
    assert bench.consumer.calls == ["seek 0 to 0", "resume 0", "seek 0 to 0"]


def test_a_partition_that_comes_back_waits_for_a_claim_of_its_own(bench: Bench) -> None:
    bench.claims.starts = {P0: Start(42)}
    bench.admission.begin([P0], "aaaaaaaa")
    bench.consumer.begin_backpressure()
    bench.admission.turn()  # the claim of the former assignment is through and waits for the end of the pause
    bench.admission.end([P0])
    bench.claims.held_back = {P0}
    bench.admission.begin([P0], "cccccccc")
    bench.consumer.end_backpressure()
    bench.admission.turn()
    assert (bench.consumer.calls, bench.consumer.paused) == ([], {P0})
    bench.claims.starts = {P0: Start(50)}
    bench.claims.held_back.clear()
    bench.admission.turn()
    assert bench.consumer.calls == ["seek 0 to 50", "resume 0", "seek 0 to 50"]


def test_an_assignment_renewed_without_an_end_waits_for_a_claim_of_its_own(bench: Bench) -> None:
    bench.admission.begin([P0], "aaaaaaaa")
    bench.consumer.begin_backpressure()
    bench.admission.turn()
    bench.claims.held_back = {P0}
    bench.admission.begin([P0], "cccccccc")
    bench.consumer.end_backpressure()
    bench.admission.turn()
    assert bench.consumer.calls == []
