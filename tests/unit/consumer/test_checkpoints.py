"""When the application commits offsets, and what it does when a commit fails."""

from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from app.errors import FatalError, RetryableError
from app.model import TopicPartition
from tests.fakes.clock import Clock
from tests.unit.consumer.application_bench import COORDINATOR_AWAY, TOPIC, TP, Bench, record

NOT_ALLOWED = KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED)


def test_offsets_are_committed_after_their_rows_are_in_the_lake(bench: Bench) -> None:
    bench.turn(record(5), record(6), record(3, partition=1))

    def deliver() -> None:
        bench.calls.append("in the lake")
        bench.pipeline.deliver_all()

    bench.pipeline.on_wait = deliver
    bench.checkpoint()
    assert bench.calls[-2:] == ["in the lake", "commit"]
    assert bench.commits == [{TP: 7, TopicPartition(TOPIC, 1): 4}]
    assert bench.turns == 3


def test_a_commit_that_fails_in_passing_is_tried_again_with_the_same_offsets(bench: Bench) -> None:
    bench.commit_errors = [COORDINATOR_AWAY]
    bench.turn(record(0))
    bench.checkpoint()
    assert bench.commits == []

    bench.checkpoints.commit_interval = 0.0  # always due
    bench.turn(record(1))
    assert bench.calls.count("commit") == 1, "not before a pause"

    bench.checkpoints._next_try = 0.0  # the pause is over
    bench.checkpoint()
    assert bench.commits == [{TP: 2}]


def test_a_full_buffer_waits_for_the_next_try_of_a_commit_and_reads_no_more(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    clock = Clock()
    bench = Bench(monkeypatch, tmp_path, clock=clock)
    bench.assign()
    bench.commit_errors = [COORDINATOR_AWAY]
    bench.turn(record(0))
    bench.checkpoint()
    begin = clock.now

    bench.pipeline.held_bytes = 10_000_000
    bench.turn(record(1))
    assert bench.commits == [{TP: 2}]
    assert clock.now > begin
    assert bench.written == [0, 1], "no row is written twice for it"


def test_a_commit_that_is_not_allowed_ends_the_process_with_what_to_check(bench: Bench) -> None:
    bench.commit_errors = [NOT_ALLOWED]
    bench.turn(record(0))
    with pytest.raises(FatalError, match=r"committing offsets: .*Check the user's rights on the consumer group"):
        bench.checkpoint()


def test_the_last_commit_is_tried_several_times(bench: Bench) -> None:
    bench.commit_errors = [COORDINATOR_AWAY] * 4
    bench.turn(record(0))
    bench.application.request_stop()
    bench.checkpoint()
    assert bench.commits == [{TP: 1}]


def test_the_last_commit_is_not_put_off_by_one_that_failed_just_before(bench: Bench) -> None:
    bench.commit_errors = [COORDINATOR_AWAY]
    bench.turn(record(0))
    bench.checkpoint()
    bench.application.request_stop()
    bench.checkpoint()
    assert bench.commits == [{TP: 1}]


def test_a_last_commit_that_never_works_is_an_error(bench: Bench) -> None:
    bench.commit_errors = [COORDINATOR_AWAY] * 100
    bench.turn(record(0))
    bench.application.request_stop()
    with pytest.raises(RetryableError, match=r"committing offsets: .*The rows since the last commit are read again"):
        bench.checkpoint()


def test_a_full_buffer_forces_a_commit(bench: Bench) -> None:
    bench.turn(record(0))
    assert bench.commits == []
    bench.pipeline.held_bytes = 10_000_000
    bench.turn(record(1))
    assert bench.commits == [{TP: 2}]
    assert bench.pipeline.batches[0].reason == "buffer full"


def test_what_is_consumed_and_not_committed_has_an_age(bench: Bench) -> None:
    assert bench.assignments.oldest_uncommitted == {}
    bench.turn(record(5), record(6), record(3, partition=1))
    assert sorted(bench.assignments.oldest_uncommitted) == [TP, TopicPartition(TOPIC, 1)]
    bench.checkpoint()
    assert bench.assignments.oldest_uncommitted == {}


def test_messages_count_once_though_the_client_goes_back(lenient: Bench) -> None:
    lenient.turn(record(0), record(1), record(0), record(2))  # the client went back by a slip
    assert lenient.checkpoints.consumed == 3


def test_the_next_commit_is_due_after_the_interval_and_late_from_then_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    clock = Clock()
    bench = Bench(monkeypatch, tmp_path, clock=clock)
    bench.assign()
    assert bench.checkpoints.due_in == 3600
    clock.advance(3610)
    assert bench.checkpoints.due_in == -10
    bench.turn(record(0))
    bench.checkpoint()
    assert bench.checkpoints.due_in == 3600
