"""The application on the bench: it is the real one and so is the sink; only what would ask a broker is played."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition
from quixstreams.context import message_context
from quixstreams.models import MessageContext, Row

from app.bad_records.policy import BadRecords, OnBadRecord
from app.consumer.application import LakeApplication
from app.consumer.assignment import Assignments
from app.consumer.loop import new_loop
from app.consumer.paused_partitions import PausedPartitions
from app.consumer.sink import LakeSink
from app.journal.start_offset import Start
from app.model import TopicPartition
from app.timings import Timings
from tests.fakes.clock import Clock
from tests.fakes.instant_claims import InstantClaims
from tests.fakes.manual_pipeline import ManualPipeline
from tests.support.batches import UNBOUNDED

TOPIC = "sensors"
TP = TopicPartition(TOPIC, 0)
PARTITIONS = [KafkaTopicPartition(TOPIC, 0), KafkaTopicPartition(TOPIC, 1)]
COORDINATOR_AWAY = KafkaError(KafkaError.COORDINATOR_NOT_AVAILABLE)
FAST = Timings(sleep=lambda _: None)
Transform = Callable[[dict[str, Any]], list[Any]]


class Bench:
    """The application with a broker that is played: what it would give, and what it gets."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path,
        choice: OnBadRecord = "fail",
        *,
        clock: Clock | None = None,
        batch_size: int = 1_000,
        max_buffer_bytes: int = 10_000_000,
    ) -> None:
        self.reported: list[str] = []
        timings = Timings(clock=clock, sleep=clock.advance) if clock else FAST
        self.assignments = Assignments(timings=timings)
        self.pipeline = ManualPipeline(clock or Clock())
        self.pipeline.on_wait = self.pipeline.deliver_all
        self.turns = 0
        self.application = LakeApplication(
            assignments=self.assignments,
            max_record_bytes=1_000_000,
            timings=timings,
            broker_address="127.0.0.1:9",
            consumer_group="group",
            commit_interval=3600,
            auto_create_topics=False,
            broker_availability_timeout=0,
            loglevel=None,
            state_dir=tmp_path / "state",
        )
        self.sink = LakeSink(
            pipeline=self.pipeline,
            assignments=self.assignments,
            limits=replace(UNBOUNDED, batch_size=batch_size, max_buffer_bytes=max_buffer_bytes, target_file_bytes=0),
            bad_records=BadRecords(choice, self.reported.append),
            timings=timings,
        )
        self.claims = InstantClaims()
        paused = PausedPartitions(self.application.consumer, self.claims, self.assignments)
        loop = new_loop(
            application=self.application,
            assignments=self.assignments,
            sink=self.sink,
            paused=paused,
            on_turn=self._turn,
            timings=timings,
        )
        self.application.start(loop)
        self.checkpoints: Any = loop.checkpoints
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
            "pause": lambda tps: self.calls.append(f"pause {len(tps)}"),
            "seek": lambda tp: self.calls.append(f"seek {tp.partition} to {tp.offset}"),
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
        committed = {TopicPartition(tp.topic, tp.partition): tp.offset for tp in offsets}
        if asynchronous and all(self._start(tp) == offset for tp, offset in committed.items()):
            return offsets  # where partitions begin
        self.calls.append("commit")
        if self.commit_errors:
            raise KafkaException(self.commit_errors.pop(0))
        self.commits.append(committed)
        return offsets

    def _start(self, tp: TopicPartition) -> int:
        return self.claims.starts.get(tp, Start(0)).offset

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


def record(offset: int, value: Any = None, partition: int = 0) -> Row:
    return Row(value or {"n": offset}, "key", 1_000, MessageContext(TOPIC, partition, offset, 20), [])
