"""The sink of quixstreams: takes rows, seals them into batches, and flushes until all of them are in the lake.

Invariants kept here:
1. ``flush`` returns only when every row added before it is uploaded and registered; only then offsets are committed.
4. Memory is bounded: at ``max_buffer_bytes`` the sink asks for a checkpoint instead of taking more.
"""

import logging
import threading
from collections import deque
from collections.abc import Collection, Sequence
from typing import Any

from quixstreams.models import HeadersTuples
from quixstreams.sinks import BaseSink, SinkBackpressureError

from app.bad_records.policy import BadRecords
from app.batch_limits import BatchLimits
from app.consumer.assignment import Assignments
from app.consumer.buffer import Buffer
from app.consumer.flush import BatchWriter, FlushWait
from app.consumer.sink_observer import SinkObserver
from app.errors import RetryableError
from app.model import Batch, Message, Rejected, TopicPartition
from app.monitoring.metrics import Metrics
from app.timings import DEFAULT, Timings

logger = logging.getLogger(__name__)


class LakeSink(BaseSink):
    """Buffers rows per topic-partition and seals them into batches for the pipeline.

    Args:
        pipeline: writes the batches.
        assignments: the current ones.
        limits: decide when a batch ends, and why.
        bad_records: the policy for records that cannot become rows.
        metrics: counts pauses.
        observer: notified of assignments, records and turns; ``None`` saves the call for each record.
        timings: deadlines of flushes.
    """

    def __init__(
        self,
        *,
        pipeline: BatchWriter,
        assignments: Assignments,
        limits: BatchLimits,
        bad_records: BadRecords,
        metrics: Metrics | None = None,
        observer: SinkObserver | None = None,
        timings: Timings = DEFAULT,
    ) -> None:
        # quixstreams calls these around setup(), of which there is none: everything is connected before it starts.
        super().__init__(on_client_connect_success=lambda: None)
        self._pipeline = pipeline
        self._assignments = assignments
        self.limits = limits
        self._wait = FlushWait(timings)
        self._timings = timings
        self._clock = timings.clock
        self._metrics = metrics or Metrics()
        self._observer = observer
        self._buffer = Buffer(assignments, limits.max_record_bytes, bad_records)
        self._last_portion = 0
        self._flushed_portion = 0
        self._failed_portion = 0  # the last one that a flush has waited for in vain
        self._gathered: deque[tuple[int, int]] = deque()  # portions of the current batch, each with its records
        self._gathering_since = self._quiet_since = self._clock()
        self._rows_at_last_turn = self._handed_over = 0
        self._consumer_thread = threading.get_ident()
        self._revoking = False
        self._revocation = threading.Lock()  # held while a flush on another thread seals, and to end a revocation
        self.last_flush_ok = True
        self.left_rows_behind = False  # when partitions were last given away, some rows were not committed yet

    # --- called by quixstreams --------------------------------------------------------------------------------------

    def __str__(self) -> str:
        return "lake"  # in its log

    def add(
        self,
        value: Any,
        key: Any,
        timestamp: int,
        headers: HeadersTuples,
        topic: str,
        partition: int,
        offset: int,
    ) -> None:
        """Buffer one record. Never blocks.

        Raises:
            NotARowError: the value is no dict, or the message is too big.
        """
        self._buffer.add(value, key, timestamp, headers, topic, partition, offset)
        if self._observer is not None:
            self._observer.row_added(TopicPartition(topic, partition), key)

    def flush(self) -> None:
        """Seal the rest and wait until all batches sealed so far are in the lake.

        Raises:
            SinkBackpressureError: the store or the catalog is away; quixstreams pauses and reads the rows again.
            RetryableError: the same while partitions are revoked or the process stops, when pausing is impossible.
            ConnectorError: the pipeline failed with an error that no retry corrects.
        """
        try:
            self._flush()
        finally:
            # quixstreams flushes on another thread while it revokes; observers are for the consumer's thread alone.
            if self._observer is not None and threading.get_ident() == self._consumer_thread:
                self._observer.flushed()

    def _flush(self) -> None:
        with self._revocation:
            revoking = self._revoking
            if threading.get_ident() != self._consumer_thread and not revoking:
                raise _too_late()
            self._seal(self.limits.at_flush(self.held_bytes))
            last_batch = self._last_portion
        try:
            self._wait.until_delivered(self._pipeline, last_batch, revoking=revoking)
            self._assignments.refuse_flush(self._wait.pause_seconds(revoking=revoking))
        except SinkBackpressureError:
            self._failed_portion = last_batch
            self._metrics.paused()
            self.on_paused()
            raise
        except BaseException:
            self.last_flush_ok = False
            raise
        self._flushed_portion = last_batch
        self.last_flush_ok = True

    def on_paused(self) -> None:
        """Drop the rows that are not sealed: the consumer pauses, and then reads again from its last commit.

        Another sink of ``transform()`` may have asked for the pause; nothing is committed then either.
        """
        self.last_flush_ok = False
        self._buffer.rewind()

    # --- called by the application ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Nothing to connect: the store, the catalog and Spark are up before the application runs."""

    def assign(self, tps: Collection[TopicPartition]) -> str:
        """Begin a new assignment of these topic-partitions; called on the consumer's thread.

        Returns:
            The token of the new generation.
        """
        self._consumer_thread = threading.get_ident()
        token = self._assignments.begin(tps)
        self._buffer.count_waiting()
        self._flushed_portion = self._last_portion  # earlier batches belong to former assignments
        self.left_rows_behind = False
        self.last_flush_ok = True  # a flush of a former assignment says nothing about this one
        if self._observer is not None:
            self._observer.assigned(tps)
        return token

    def unassign(self, tps: Sequence[TopicPartition]) -> None:
        """End the assignments: drop rows that are not sealed, and upload no sealed ones from now on."""
        if self._observer is not None:
            self._observer.unassigned(tps)
        # A batch that reached the lake during a pause, after its flush gave up, is not committed either.
        uncommitted = self._buffer.rows > 0 or self._last_portion > self._flushed_portion
        self.left_rows_behind = self.left_rows_behind or uncommitted
        self._assignments.end(tps)
        self._buffer.count_waiting()

    def turn(self) -> None:
        """Seal a batch if it is time to; called after each turn of the loop, when all rows of an offset are there.

        Raises:
            ConnectorError: the pipeline failed with an error that no retry corrects.
        """
        if self._observer is not None:
            self._observer.turn(is_in_trouble=self._is_in_trouble)
        if self._pipeline.failure is not None:
            raise self._pipeline.failure
        self._assignments.end_if_fenced_for_long()
        self._seal_if_worth_it()

    def _seal_if_worth_it(self) -> None:
        now = self._clock()
        is_writer_idle = self._pipeline.is_idle
        if not is_writer_idle:
            self._gathering_since = now
        rows = self._handed_over + self._buffer.rows
        if rows != self._rows_at_last_turn:
            self._rows_at_last_turn, self._quiet_since = rows, now
        reason = self.limits.after_turn(
            gathered_rows=self._gathered_rows + self._buffer.rows,
            is_writer_idle=is_writer_idle,
            is_checkpoint_due=False,
            gathered_seconds=now - self._gathering_since,
            quiet_seconds=now - self._quiet_since,
        )
        if reason or self.limits.is_portion(self._buffer.bytes):
            self._seal(reason)

    @property
    def is_full(self) -> bool:
        """Whether the buffer has reached its bound, so that a checkpoint is due."""
        return self.limits.is_full(self.held_bytes)

    @property
    def is_held_up(self) -> bool:
        """Whether the last flush failed and its batches are not in the lake yet; safe from any thread.

        ``last_flush_ok`` becomes true only with the next commit, and without new records there is none.
        """
        return not self.last_flush_ok and not self._pipeline.wait_delivered(self._failed_portion, 0.0)

    @property
    def held_bytes(self) -> int:
        """Bytes of all rows in Python, in the buffer and in the pipeline; safe from any thread."""
        return self._buffer.bytes + self._pipeline.held_bytes

    def begin_record(self, message: Message | None = None) -> None:
        """Note that the processing of a record begins; a message may hold several, all with its offset.

        Args:
            message: the one that holds this record alone; ``None`` where it is unknown or holds several.
        """
        self._buffer.begin_record(message)

    def reject(self, rejected: Rejected, hint: str) -> None:
        """Keep a record that cannot become a row for the dead letter; take out the rows that it already gave.

        Raises:
            DataError: ``ON_BAD_RECORD`` is ``fail``.
        """
        self._buffer.reject(rejected, hint)
        if self._observer is not None:
            self._observer.record_rejected(rejected)

    def discard(self, tp: TopicPartition, offset: int) -> None:
        """Drop all rows of a message that ends the process."""
        self._buffer.discard(tp, offset)

    def revoking(self, active: bool) -> None:
        """Note that a revocation begins or ends; while it lasts, no flush may ask for a pause.

        quixstreams then flushes on a thread of its own, and abandons the thread when it takes too long. An abandoned
        flush must not seal rows of the next assignment.
        """
        with self._revocation:
            self._revoking = active

    def stopping(self) -> None:
        """Give the shorter deadline to the flush that runs or comes next: the process was asked to stop."""
        self._wait.stopping()

    # --- inside -----------------------------------------------------------------------------------------------------

    @property
    def _gathered_rows(self) -> int:
        """Records of the current batch that the pipeline has; it may have ended a batch by itself."""
        while self._gathered and self._gathered[0][0] <= self._pipeline.closed_portion:
            self._gathered.popleft()
        return sum(records for _, records in self._gathered)

    @property
    def _is_in_trouble(self) -> bool:
        return self._pipeline.obstacle is not None or self._pipeline.failure is not None

    def _seal(self, reason: str | None) -> None:
        """Hand the waiting rows to the pipeline; with a reason, they end the batch."""
        portion = self._buffer.seal(self._last_portion + 1, reason)
        if portion:
            self._gathered.append((portion.number, portion.records))
            self._handed_over += portion.records
        elif reason and self._gathered_rows:
            portion = Batch(self._last_portion + 1, reason)
        if reason:
            self._gathered.clear()
            self._gathering_since = self._clock()
        if portion:
            self._last_portion = portion.number
            self._pipeline.submit(portion)


def _too_late() -> RetryableError:
    return RetryableError(
        "flushing before the partitions are given away",
        "they are gone already",
        "Their offsets are not committed: the next owner of the partitions reads them again",
    )
