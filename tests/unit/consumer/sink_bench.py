"""A sink on the bench: with a pipeline that delivers by hand, and a clock that stands still."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from quixstreams.context import set_message_context
from quixstreams.models import MessageContext

from app.bad_records.policy import BadRecords
from app.consumer.assignment import Assignments
from app.consumer.sink import LakeSink
from app.consumer.sink_observer import SinkObserver
from app.errors import FatalError, RetryableError
from app.model import Batch, TopicPartition
from app.timings import Timings
from tests.fakes.clock import Clock
from tests.fakes.manual_pipeline import ManualPipeline
from tests.support.batches import NOON, TP, UNBOUNDED

OTHER = TopicPartition("sensors", 1)
AWAY = RetryableError("uploading s3://lake/x", "no route to host")
BROKEN = FatalError("uploading s3://lake/x", "access denied")


class Bench:
    """A sink with a pipeline that delivers nothing by itself, and a clock that stands still."""

    def __init__(
        self,
        *,
        batch_size: int = 3,
        max_buffer_bytes: int = 1_000_000,
        gather_seconds: float = 0.0,
        target_file_bytes: int = 0,
        clock: Clock | None = None,
        observer: SinkObserver | None = None,
    ) -> None:
        self.clock = clock or Clock()
        self.pipeline = ManualPipeline(self.clock)
        self.timings = Timings(clock=self.clock, sleep=self.clock.advance)
        self.assignments = Assignments(timings=self.timings)
        self.sink = LakeSink(
            pipeline=self.pipeline,
            assignments=self.assignments,
            limits=replace(
                UNBOUNDED,
                batch_size=batch_size,
                max_buffer_bytes=max_buffer_bytes,
                target_file_bytes=target_file_bytes,
                gather_seconds=gather_seconds,
            ),
            bad_records=BadRecords("dead-letter", lambda _: None),
            observer=observer,
            timings=self.timings,
        )
        self.sink.assign([TP, OTHER])

    def add(self, *offsets: int, tp: TopicPartition = TP, value: Any = None, size: int = 100) -> None:
        for offset in offsets:
            set_message_context(MessageContext(tp.topic, tp.partition, offset, size))
            self.sink.add({"v": offset} if value is None else value, "key", NOON, [], tp.topic, tp.partition, offset)

    def consume(self, *offsets: int, tp: TopicPartition = TP) -> None:
        """Rows as the consumer's loop brings them, one turn for each."""
        for offset in offsets:
            self.add(offset, tp=tp)
            self.sink.turn()

    def after(self, seconds: float, do: Callable[[], None]) -> None:
        """Do something while a flush waits, once it has waited for so long."""
        due = self.clock.now + seconds

        def look() -> None:
            if self.clock.now >= due:
                do()

        self.pipeline.on_wait = look

    @property
    def sealed(self) -> list[dict[TopicPartition, list[int]]]:
        return [offsets(batch) for batch in self.pipeline.batches]


def offsets(batch: Batch) -> dict[TopicPartition, list[int]]:
    return {part.offsets.tp: [row.offset for row in rows] for part, rows in zip(batch.parts, batch.rows, strict=True)}
