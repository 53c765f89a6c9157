"""The application between quixstreams and the sink: commits that fail, partitions that go, records that are bad.

The application is the real one and so is the sink; only what would ask a broker is played.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition
from quixstreams import Application
from quixstreams.context import message_context
from quixstreams.exceptions import PartitionAssignmentError
from quixstreams.kafka.exceptions import KafkaConsumerException
from quixstreams.models import MessageContext, Row

from app import application as module
from app.application import LakeApplication
from app.bad_records import BadRecords, OnBadRecord
from app.errors import ConnectorError, DataError, FatalError, RetryableError
from app.model import Rejected, TopicPartition
from app.sink import LakeSink
from tests.fakes.clock import Clock
from tests.fakes.manual_pipeline import ManualPipeline

TOPIC = "sensors"
TP = TopicPartition(TOPIC, 0)
PARTITIONS = [KafkaTopicPartition(TOPIC, 0), KafkaTopicPartition(TOPIC, 1)]
COORDINATOR_AWAY = KafkaError(KafkaError.COORDINATOR_NOT_AVAILABLE)
NOT_ALLOWED = KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED)
Transform = Callable[[dict[str, Any]], list[Any]]


class Bench:
    """The application with a broker that is played: what it would give, and what it gets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, choice: OnBadRecord = "fail") -> None:
        self.told: list[str] = []
        self.pipeline = ManualPipeline(Clock())
        self.pipeline.on_wait = self.pipeline.deliver_all
        self.sink = LakeSink(
            batch_size=1_000,
            gather_seconds=0.0,
            max_buffer_bytes=10_000_000,
            max_record_bytes=1_000_000,
            flush_seconds=180,
            revoke_seconds=55,
            stop_seconds=25,
            bad_records=BadRecords(choice, self.told.append),
        )
        self.sink.connect(self.pipeline)
        self.turns = 0
        self.application = LakeApplication(
            lake_sink=self.sink,
            on_turn=self._turn,
            broker_address="127.0.0.1:9",
            consumer_group="group",
            commit_interval=3600,
            auto_create_topics=False,
            broker_availability_timeout=0,
            loglevel=None,
            state_dir=tmp_path / "state",
        )
        self.checkpoints = self.application._checkpoints
        self.checkpoints.sink_manager.register(self.sink)
        self.checkpoints.init_checkpoint()
        self.transform: Transform = lambda value: [value]
        self.records: list[Row | Exception | None] = []
        self.commit_errors: list[KafkaError] = []
        self.commits: list[dict[TopicPartition, int]] = []
        self.calls: list[str] = []
        monkeypatch.setattr(self.application._producer, "poll", lambda _: None)
        consumer = self.application._consumer
        for name, played in {
            "poll_row": self._poll,
            "commit": self._commit,
            "assign": lambda tps: self.calls.append(f"assign {len(tps)}"),
            "resume": lambda tps: self.calls.append(f"resume {len(tps)}"),
            "pause": lambda _: None,
        }.items():
            monkeypatch.setattr(consumer, name, played)

    def _turn(self) -> None:
        self.turns += 1

    def _poll(self, timeout: float, buffered: bool) -> Row | None:
        given = self.records.pop(0) if self.records else None
        if isinstance(given, Exception):
            raise given
        return given

    def _commit(self, offsets: list[KafkaTopicPartition], asynchronous: bool) -> list[KafkaTopicPartition]:
        assert not asynchronous
        self.calls.append("commit")
        if self.commit_errors:
            raise KafkaException(self.commit_errors.pop(0))
        self.commits.append({TopicPartition(tp.topic, tp.partition): tp.offset for tp in offsets})
        return offsets

    def _dataframe(self, value: Any, key: Any, timestamp: int, headers: Any) -> None:
        for result in self.transform(value):
            context = message_context()
            self.sink.add(result, key, timestamp, headers, context.topic, context.partition, context.offset)

    def assign(self) -> None:
        self.application._on_assign(None, PARTITIONS)

    def turn(self, *given: Row | Exception | None) -> None:
        """One turn of the loop for each."""
        for one in given or (None,):
            self.records.append(one)
            self.application._process_message({TOPIC: self._dataframe})
            self.checkpoints.commit_checkpoint()

    def checkpoint(self) -> None:
        self.checkpoints.commit_checkpoint(force=True)

    @property
    def written(self) -> list[int]:
        """Offsets of all rows that were handed to the pipeline."""
        return [row.offset for batch in self.pipeline.batches for rows in batch.rows for row in rows]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bench:
    bench = Bench(monkeypatch, tmp_path)
    bench.assign()
    return bench


@pytest.fixture
def lenient(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bench:
    """Bad records go to the dead letter here."""
    bench = Bench(monkeypatch, tmp_path, "dead-letter")
    bench.assign()
    return bench


def record(offset: int, value: Any = None, partition: int = 0) -> Row:
    return Row(value or {"n": offset}, "key", 1_000, MessageContext(TOPIC, partition, offset, 20), [])


# --- commits --------------------------------------------------------------------------------------------------------


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

    bench.turn(record(1))
    bench.checkpoint()
    assert bench.calls.count("commit") == 1, "not before a pause"

    bench.checkpoints._next_try = 0.0  # the pause is over
    bench.checkpoint()
    assert bench.commits == [{TP: 2}]
    assert bench.written == [0, 1], "no row is written twice for it"


def test_a_commit_that_is_not_allowed_ends_the_process_with_what_to_check(bench: Bench) -> None:
    bench.commit_errors = [NOT_ALLOWED]
    bench.turn(record(0))
    with pytest.raises(FatalError, match=r"committing offsets: .*Check the user's rights on the consumer group"):
        bench.checkpoint()


def test_the_last_commit_is_tried_several_times(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_COMMIT_PAUSE_SECONDS", 0.0)
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


def test_a_last_commit_that_never_works_is_told(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_COMMIT_PAUSE_SECONDS", 0.0)
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


# --- partitions come and go -----------------------------------------------------------------------------------------


def test_assigned_partitions_are_resumed_whatever_was_paused_before(bench: Bench) -> None:
    assert bench.calls == ["assign 2", "resume 2"]
    assert bench.sink.is_assigned


def test_what_is_taken_away_is_written_and_committed_before(bench: Bench) -> None:
    bench.turn(record(0), record(1))
    bench.application._on_revoke(None, PARTITIONS)
    assert bench.written == [0, 1]
    assert bench.commits == [{TP: 2}]
    assert not bench.sink.is_assigned
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


def test_another_error_in_a_rebalance_is_kept(bench: Bench) -> None:
    with pytest.raises(PartitionAssignmentError):
        bench.turn(PartitionAssignmentError("Error during partition assignment"))


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


# --- bad records ----------------------------------------------------------------------------------------------------


def test_what_came_before_a_bad_record_is_written_and_committed(bench: Bench) -> None:
    bench.turn(record(0), record(1))
    with pytest.raises(DataError, match=r"reading the record of sensors\[0\] at offset 2: its value is of type str"):
        bench.turn(record(2, "text"))
    assert bench.written == [0, 1]
    assert bench.commits == [{TP: 2}]


def test_no_part_of_a_record_is_written_when_another_part_of_it_is_bad(bench: Bench) -> None:
    bench.turn(record(0))
    bench.transform = lambda value: [value, value, "text"]
    with pytest.raises(DataError, match="at offset 1"):
        bench.turn(record(1))
    assert bench.written == [0]
    assert bench.commits == [{TP: 1}]


def test_a_transform_that_raises_names_the_record(bench: Bench) -> None:
    bench.turn(record(0))
    bench.transform = lambda value: [value["missing"]]
    with pytest.raises(DataError) as raised:
        bench.turn(record(1))
    assert str(raised.value) == (
        "reading the record of sensors[0] at offset 1: transform() raised KeyError('missing'). "
        "Correct transform() in app/transform.py"
    )
    assert bench.commits == [{TP: 1}]


class _Message:
    """What librdkafka gives for a record."""

    def __init__(self, offset: int, value: bytes = b"{") -> None:
        self._offset, self._value = offset, value

    def topic(self) -> str:
        return TOPIC

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return 1, 1_700_000_000_000

    def key(self) -> bytes:
        return b"\xff"

    def value(self) -> bytes:
        return self._value

    def headers(self) -> list[tuple[str, bytes]]:
        return [("h", b"\x00")]


def undeserialized(bench: Bench, offset: int) -> bool:
    message: Any = _Message(offset)
    return bench.application._consuming_failed(ValueError("no JSON"), message, logging.getLogger())


def test_a_record_that_does_not_deserialize_is_named(bench: Bench) -> None:
    with pytest.raises(DataError) as raised:
        undeserialized(bench, 2)
    assert str(raised.value).startswith(
        "reading the record of sensors[0] at offset 2: it does not deserialize: no JSON. "
        "Set KAFKA_VALUE_DESERIALIZER and KAFKA_KEY_DESERIALIZER"
    )
    assert raised.value.record == (TP, 2)


def test_a_record_that_does_not_deserialize_is_put_aside_as_it_came(lenient: Bench) -> None:
    lenient.turn(record(0))
    assert undeserialized(lenient, 1)
    lenient.turn(record(2))
    lenient.checkpoint()
    (batch,) = lenient.pipeline.batches
    assert lenient.written == [0, 2]
    assert batch.rejected == (
        Rejected(
            TP,
            1,
            1_700_000_000_000,
            b"\xff",
            b"{",
            [("h", b"\x00")],
            "it does not deserialize: no JSON",
        ),
    )
    assert lenient.commits == [{TP: 3}]
    assert "sensors[0] at offset 1 goes to the dead letter: it does not deserialize: no JSON" in lenient.told[0]


def test_a_bad_record_at_the_end_of_the_topic_is_committed_too(lenient: Bench) -> None:
    """The framework itself does not: it would come again after each restart."""
    assert undeserialized(lenient, 7)
    lenient.checkpoint()
    assert lenient.commits == [{TP: 8}]
    assert [part.offsets.last for part in lenient.pipeline.batches[0].parts] == [7]


def test_a_record_whose_transform_fails_half_way_is_put_aside_as_a_whole(lenient: Bench) -> None:
    lenient.transform = lambda value: [value, value] if value["n"] != 1 else [value, value, "text"]
    lenient.turn(record(0), record(1), record(2))
    lenient.checkpoint()
    assert lenient.written == [0, 0, 2, 2]
    (rejected,) = lenient.pipeline.batches[0].rejected
    assert (rejected.offset, rejected.value, rejected.key) == (1, {"n": 1}, "key")
    assert rejected.reason == "its value is of type str, and a row needs an object with fields"
    assert lenient.commits == [{TP: 3}]


def test_other_records_of_the_same_message_are_kept(lenient: Bench) -> None:
    """A deserializer may make several records of one message; they share its offset."""
    several = [record(5, {"n": 1}), record(5, {"n": 2}), record(5, {"n": 3})]
    lenient.transform = lambda value: [value] if value["n"] != 2 else [value["missing"]]
    lenient.records.append(several)  # type: ignore[arg-type]
    lenient.application._process_message({TOPIC: lenient._dataframe})
    lenient.checkpoint()
    (batch,) = lenient.pipeline.batches
    assert [row.value["n"] for row in batch.rows[0]] == [1, 3]
    assert [(one.offset, one.value, one.reason) for one in batch.rejected] == [
        (5, {"n": 2}, "transform() raised KeyError('missing')")
    ]


# --- the broker's errors, the stop ----------------------------------------------------------------------------------


def consumer_error(code: int, *, fatal: bool = False) -> bool:
    return module._kafka_failed(KafkaConsumerException(KafkaError(code, "in the broker's words", fatal)))


def test_passing_errors_of_the_consumer_are_passed_over_and_told(caplog: pytest.LogCaptureFixture) -> None:
    assert consumer_error(KafkaError._TRANSPORT)
    assert "Kafka: in the broker's words; going on" in caplog.text


@pytest.mark.parametrize(
    ("code", "fatal"),
    [
        (KafkaError.UNKNOWN_TOPIC_OR_PART, False),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, False),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, False),
        (KafkaError._FATAL, True),
    ],
)
def test_lasting_errors_of_the_consumer_end_the_process(code: int, fatal: bool) -> None:
    with pytest.raises(FatalError, match=r"consuming from Kafka: .*Check that the topic still exists"):
        consumer_error(code, fatal=fatal)


def test_errors_of_our_own_are_never_passed_over(lenient: Bench) -> None:
    assert not module._kafka_failed(RuntimeError("a bug"))
    own: ConnectorError = RetryableError("uploading", "503")
    assert not lenient.application._processing_failed(own, record(0), logging.getLogger())


def test_a_failed_pipeline_ends_the_loop_at_the_next_turn(bench: Bench) -> None:
    bench.pipeline.failure = FatalError("uploading s3://lake/x", "403", "Check the rights")
    with pytest.raises(FatalError, match="uploading s3://lake/x"):
        bench.turn()
    assert bench.turns == 0


def test_what_is_in_the_lake_is_committed_though_a_later_batch_failed_for_good(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start that fails at the same place again would write it once more each time."""
    broken = FatalError("uploading s3://lake/x", "403", "Check the rights")
    bench.sink._batch_size = 1

    def consume(*_: object) -> None:
        bench.turn(record(0), record(1), record(2))
        bench.pipeline.delivered, bench.pipeline.failure = 2, broken
        bench.turn(record(3))

    monkeypatch.setattr(Application, "_run_dataframe", consume)
    with pytest.raises(FatalError, match="403"):
        bench.application._run_dataframe()
    assert bench.written == [0, 1, 2]
    assert bench.commits == [{TP: 2}]


def test_a_stop_before_the_loop_consumes_nothing(bench: Bench) -> None:
    bench.application.request_stop()
    bench.application._run_tracker.set_as_running()  # type: ignore[no-untyped-call] # the framework does so when its loop begins
    bench.turn(record(0))
    assert len(bench.records) == 1
    assert not bench.application._run_tracker.running


def test_signals_stay_with_the_service(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    installed: list[object] = []
    monkeypatch.setattr("signal.signal", lambda *arguments: installed.append(arguments))
    bench.application._setup_signal_handlers()
    assert installed == []
