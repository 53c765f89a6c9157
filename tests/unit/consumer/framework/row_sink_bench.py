"""The sink of the framework's lane on the bench: its clock stands still, and its pipeline delivers by hand."""

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from app.consumer.partitions import Partitions
from quixstreams.models import MessageContext

from app.bad_records.policy import BadRecords, OnBadRecord
from app.bad_records.refusals import Refusal
from app.consumer.framework.messages import CurrentMessage
from app.consumer.framework.sink import RowSink
from app.consumer.sink_observer import SinkObserver
from app.errors import RetryableError
from app.journal.journal import LogClosedError
from app.model import Rejected, TopicPartition
from app.timings import Timings
from tests.fakes.clock import Clock
from tests.fakes.instant_claims import InstantClaims
from tests.fakes.kafka_message import KafkaMessage
from tests.fakes.manual_pipeline import ManualPipeline
from tests.support.batches import UNBOUNDED
from tests.support.waiting import join

P0, P1 = TopicPartition("sensors", 0), TopicPartition("sensors", 1)
CLOSED = LogClosedError("the log was closed by another member")
AWAY = RetryableError("uploading s3://lake/x", "no route to host")
NOON = 1_705_320_000_000


class Bench:
    """A sink with its surroundings, whose pipeline delivers while a flush waits."""

    def __init__(
        self,
        *,
        on_bad_record: OnBadRecord = "dead-letter",
        max_buffer_bytes: int = 1_000_000,
        batch_size: int = 1_000,
        clock: Clock | None = None,
        observer: SinkObserver | None = None,
        can_go_back: bool = True,
    ) -> None:
        self.clock = clock or Clock()
        self.pipeline = ManualPipeline(self.clock)
        self.pipeline.on_wait = self.pipeline.deliver_all
        self.claims = InstantClaims()
        self.timings = Timings(clock=self.clock)
        self.partitions = Partitions(timings=self.timings)
        self.current = CurrentMessage(1_000)
        self.commits: list[tuple[dict[TopicPartition, int], int]] = []  # each with how many batches there were
        self.sink = RowSink(
            pipeline=self.pipeline,
            partitions=self.partitions,
            claims=self.claims,
            limits=replace(UNBOUNDED, batch_size=batch_size, max_buffer_bytes=max_buffer_bytes, max_record_bytes=1_000),
            bad_records=BadRecords(on_bad_record, lambda _: None, self.clock),
            commit_interval=5.0,
            current=self.current,
            observer=observer,
            commit=self._commit,
            timings=self.timings,
            can_go_back=can_go_back,
        )
        self.sink.setup()

    def _commit(self, *, offsets: list[Any], asynchronous: bool) -> None:
        assert not asynchronous
        committed = {TopicPartition(tp.topic, tp.partition): tp.offset for tp in offsets}
        self.commits.append((committed, len(self.pipeline.batches)))

    def process(
        self,
        offset: int,
        *values: Any,
        tp: TopicPartition = P0,
        error: bool = False,
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> None:
        """A message becomes these rows; with ``error``, ``transform()`` then fails."""
        self.begin(offset, tp, headers)
        for value in values:
            self.sink.add(value, b"k", NOON, list(headers), *tp, offset)
        if error:
            self.sink.reject(refused(offset, tp), is_deserialized=True)
        self.sink.message_processed(tp, offset)

    def begin(self, offset: int, tp: TopicPartition = P0, headers: Sequence[tuple[str, bytes]] = ()) -> None:
        context = MessageContext(tp.topic, tp.partition, offset, 10)
        raw = b"raw %d" % offset
        self.current.begin(KafkaMessage(raw, raw, offset, tp.partition, tp.topic, raw_headers=list(headers)))
        self.sink.begin_record(context, NOON)

    def rows(self, *offsets: int, tp: TopicPartition = P0) -> None:
        for offset in offsets:
            self.process(offset, {"v": offset}, tp=tp)

    def not_deserialized(self, offset: int, tp: TopicPartition = P0) -> None:
        self.sink.reject(refused(offset, tp), is_deserialized=False)

    def flush_while_revoked(self) -> Exception | None:
        """Flush on a thread, as quixstreams does; returns what it raised."""
        raised: list[Exception] = []

        def flush() -> None:
            try:
                self.sink.flush()
            except Exception as error:  # noqa: BLE001
                raised.append(error)

        thread = threading.Thread(target=flush)
        thread.start()
        join(thread)
        return raised[0] if raised else None

    def fence(self) -> None:
        assert self.partitions.token
        self.partitions.fence(self.partitions.token, CLOSED)

    @property
    def sealed(self) -> list[tuple[int, Any]]:
        """The partition's number and the value of each row that went to the pipeline."""
        return [
            (part.offsets.tp.partition, row.value["v"])
            for batch in self.pipeline.batches
            for part, rows in zip(batch.parts, batch.rows, strict=True)
            for row in rows
        ]

    @property
    def ends(self) -> dict[TopicPartition, int]:
        """How far the log is written."""
        ends: dict[TopicPartition, int] = {}
        for batch in self.pipeline.batches:
            ends |= batch.ends
        return ends

    @property
    def rejected(self) -> list[int]:
        return [record.offset for batch in self.pipeline.batches for record in batch.rejected]


def refused(offset: int, tp: TopicPartition = P0) -> Refusal:
    return Refusal(Rejected(tp, offset, NOON, b"k", b"v", None, "no JSON"), "correct it")
