"""The application while partitions come and go: what is written, committed and forgotten."""

import pytest
from confluent_kafka import KafkaError, KafkaException
from quixstreams.exceptions import PartitionAssignmentError

from app.errors import FatalError, RetryableError
from tests.unit.consumer.application_bench import COORDINATOR_AWAY, PARTITIONS, TOPIC, TP, Bench, record


def test_assigned_partitions_are_resumed_whatever_was_paused_before(bench: Bench) -> None:
    assert bench.calls == ["assign 2", "pause 2", "pause 2"], "the last until they are claimed"
    bench.turn()
    assert bench.calls[3:6] == ["seek 0 to 0", "seek 1 to 0", "resume 2"]
    assert bench.assignments.tps


def test_what_is_taken_away_is_written_and_committed_before(bench: Bench) -> None:
    bench.turn(record(0), record(1))
    bench.application._on_revoke(None, PARTITIONS)
    assert bench.written == [0, 1]
    assert bench.commits == [{TP: 2}]
    assert not bench.assignments.tps
    assert not bench.sink.left_rows_behind


def test_a_commit_that_fails_while_partitions_are_taken_away_leaves_no_offset_for_later(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.commit_errors = [COORDINATOR_AWAY]
    bench.turn(record(0))
    bench.application._on_revoke(None, PARTITIONS)
    assert "their new owner reads the rows again" in caplog.text

    bench.assign()
    bench.turn(record(0))  # as the last commit says; the same offset twice in a checkpoint would be refused
    bench.checkpoint()
    assert bench.commits == [{TP: 1}]


def test_a_lasting_error_in_a_rebalance_comes_out_as_what_it_is(bench: Bench) -> None:
    cause = FatalError("committing offsets", "not authorised", "Check the rights")
    wrapped = PartitionAssignmentError("Error during partition assignment")
    wrapped.__cause__ = cause
    with pytest.raises(FatalError) as raised:
        bench.turn(wrapped)
    assert raised.value is cause


def test_a_coordinator_that_goes_away_in_a_rebalance_is_worth_a_restart(bench: Bench) -> None:
    wrapped = PartitionAssignmentError("Error during partition assignment")
    wrapped.__cause__ = KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer in 30 s"))
    with pytest.raises(RetryableError, match="joining the consumer group: no answer in 30 s"):
        bench.turn(wrapped)


def test_any_other_error_in_a_rebalance_comes_out_as_what_it_is(bench: Bench) -> None:
    wrapped = PartitionAssignmentError("Error during partition assignment")
    wrapped.__cause__ = RuntimeError("a bug")
    with pytest.raises(RuntimeError, match="a bug"):
        bench.turn(wrapped)


def test_a_member_that_stops_takes_no_partitions(bench: Bench) -> None:
    bench.application._on_revoke(None, PARTITIONS)
    bench.application.request_stop()
    bench.calls.clear()
    bench.assign()
    assert bench.calls == ["assign 0"]
    assert not bench.assignments.tps


def test_rows_of_lost_partitions_are_neither_written_nor_committed(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.turn(record(0), record(1))
    bench.application._on_lost(None, PARTITIONS)
    bench.checkpoint()
    assert bench.written == []
    assert bench.commits == []
    assert f"lost: {TOPIC}[0], {TOPIC}[1]; their new owner goes on from the last commit" in caplog.text

    bench.assign()
    bench.turn(record(0))
    bench.checkpoint()
    assert bench.commits == [{TP: 1}]
