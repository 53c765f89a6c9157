"""The sink as quixstreams sees it: rows in, batches out, and a flush that returns only when all is in the lake.

Invariants kept here:
1. ``flush`` returns only when every row added before it is uploaded and registered; only then offsets are committed.
4. Memory is bounded: at ``max_buffer_bytes`` the sink asks for a checkpoint instead of taking more.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, Protocol

from quixstreams.context import message_context
from quixstreams.models import HeadersTuples
from quixstreams.sinks import BaseSink, SinkBackpressureError

from app.assignment import Assignment
from app.bad_records import BadRecords, no_object, too_big
from app.errors import ConnectorError, RetryableError
from app.model import Batch, Rejected, Row, TopicPartition
from app.row_size import RowSizer, deep_size

logger = logging.getLogger(__name__)

# How long consuming pauses when the destination does not take batches; the pipeline itself keeps trying meanwhile.
_PAUSE_SECONDS = 5.0
_PATIENCE_SECONDS = 3.0  # a hiccup shorter than this is not worth a pause
_LOOK_SECONDS = 0.25  # between two looks at what else may have happened to the pipeline


class BatchWriter(Protocol):
    """What the sink asks of the pipeline; see ``app.pipeline.Pipeline``."""

    @property
    def is_idle(self) -> bool: ...
    @property
    def held_bytes(self) -> int: ...
    @property
    def failure(self) -> ConnectorError | None: ...
    @property
    def obstacle(self) -> RetryableError | None: ...
    def submit(self, batch: Batch) -> None: ...
    def wait_delivered(self, number: int, seconds: float) -> bool: ...


class LakeSink(BaseSink):
    """Buffers rows per topic-partition and seals them into batches for the pipeline.

    A batch is sealed when ``batch_size`` rows wait and the pipeline is idle, at most one in ``gather_seconds``; when
    the buffer is full; and at flush. Under load batches thus grow instead of multiplying, which is what spreads Spark's
    fixed cost per job and per file.

    Args:
        batch_size: rows that are worth a batch, over all partitions.
        gather_seconds: the shortest time between two batches that are sealed for their size.
        max_buffer_bytes: most bytes of rows held in Python.
        max_record_bytes: the largest message that becomes a row.
        flush_seconds: deadline of a flush at a checkpoint.
        revoke_seconds: deadline of a flush while partitions are being revoked.
        stop_seconds: deadline of the last flush, after a signal to stop.
        bad_records: what becomes of records that cannot become rows.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        *,
        batch_size: int,
        gather_seconds: float,
        max_buffer_bytes: int,
        max_record_bytes: int,
        flush_seconds: float,
        revoke_seconds: float,
        stop_seconds: float,
        bad_records: BadRecords,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        # quixstreams calls these around setup(), of which there is none: everything is connected before it starts.
        super().__init__(on_client_connect_success=lambda: None)
        self._pipeline: BatchWriter | None = None
        self._batch_size = batch_size
        self._gather_seconds = gather_seconds
        self._max_buffer_bytes = max_buffer_bytes
        self._max_record_bytes = max_record_bytes
        self._flush_seconds = flush_seconds
        self._revoke_seconds = revoke_seconds
        self._stop_seconds = stop_seconds
        self._bad_records = bad_records
        self._clock = clock
        self._assignments: dict[TopicPartition, Assignment] = {}
        self._owners: frozenset[str] = frozenset()
        self._sizer = RowSizer()
        self._rows = 0  # rejected records count as rows
        self._rows_of_record = 0
        self._bytes = 0
        self._last_batch = 0
        self._flushed_batch = 0
        self._gathering_since = clock()
        self._consumer_thread = threading.get_ident()
        self._revoking = False
        self._revocation = threading.Lock()  # held while a flush on another thread seals, and to end a revocation
        self._stop_deadline: float | None = None
        self.on_sealed: Callable[[int], None] = lambda _: None  # told the number of each new batch
        self.last_flush_ok = True
        self.left_rows_behind = False  # when partitions were last given away, some rows were not committed yet

    # --- called by quixstreams --------------------------------------------------------------------------------------

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
        assignment = self._assignments[topic, partition]  # type: ignore[index] # a TopicPartition is such a tuple
        if assignment.is_repeated(offset):
            return
        if not isinstance(value, dict):
            raise no_object(value)
        size = message_context().size
        if size > self._max_record_bytes:
            raise too_big(size, self._max_record_bytes)
        assignment.rows.append(Row(value, key, timestamp, offset, headers))
        self._rows_of_record += 1
        self._rows += 1
        self._bytes += self._sizer.size(value, size)

    def flush(self) -> None:
        """Seal the rest and wait until all batches sealed so far are in the lake.

        Raises:
            SinkBackpressureError: the destination does not take them now; quixstreams pauses and reads again.
            RetryableError: the same while partitions are revoked or the process stops, where nothing can be paused.
            ConnectorError: the pipeline failed for good.
        """
        with self._revocation:
            revoking = self._revoking
            if threading.get_ident() != self._consumer_thread and not revoking:
                raise _too_late()
            self._seal("buffer full" if self.is_full else "checkpoint")
            last_batch = self._last_batch
        try:
            self._wait_for_the_lake(last_batch, revoking=revoking)
        except SinkBackpressureError:
            self.last_flush_ok = False
            self.on_paused()
            raise
        except BaseException:
            self.last_flush_ok = False
            raise
        self._flushed_batch = last_batch
        self.last_flush_ok = True

    def on_paused(self) -> None:
        """The consumer pauses and goes back to its last commit: what is not sealed will be read again."""
        for assignment in self._assignments.values():
            assignment.rewind()
        self._rows = self._bytes = 0

    # --- called by the application ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Nothing to connect: the store, the catalog and Spark are up before the application runs."""

    def connect(self, pipeline: BatchWriter) -> None:
        """Give the sink the pipeline that writes its batches, before the first row comes."""
        self._pipeline = pipeline

    def assign(self, tps: Iterable[TopicPartition]) -> None:
        """Begin a new life for each of these topic-partitions, on the thread that consumes them."""
        self._consumer_thread = threading.get_ident()
        for tp in tps:
            self._assignments[tp] = Assignment(tp)
        self._owners_changed()
        self._count_waiting()
        self.left_rows_behind = False
        self.last_flush_ok = True  # a failed one of the former life says nothing about this one

    def unassign(self, tps: Iterable[TopicPartition]) -> None:
        """End the assignments: rows not sealed are dropped, sealed ones are not uploaded any more."""
        # A batch that came through during a pause, after the flush that gave up on it, is not committed either.
        uncommitted = self._rows > 0 or self._last_batch > self._flushed_batch
        self.left_rows_behind = self.left_rows_behind or uncommitted
        for tp in tps:
            self._assignments.pop(tp, None)
        self._owners_changed()
        self._count_waiting()

    @property
    def is_assigned(self) -> bool:
        return bool(self._assignments)

    def is_owner(self, token: str) -> bool:
        """Whether the assignment with this token still stands; safe from any thread."""
        return token in self._owners

    def turn(self) -> None:
        """One turn of the consumer's loop is over: all offsets seen are complete. Seal if it is time to.

        Raises:
            ConnectorError: the pipeline failed for good.
        """
        self.raise_failure()
        if self._rows >= self._batch_size and self._writer.is_idle and self._has_gathered:
            self._seal(f"{self._rows:,} rows waiting, writer idle")

    @property
    def _has_gathered(self) -> bool:
        return self._clock() - self._gathering_since >= self._gather_seconds

    @property
    def is_full(self) -> bool:
        """Whether the buffer has reached its bound, so that a checkpoint is due."""
        return self._bytes + self._writer.held_bytes >= self._max_buffer_bytes

    def begin_record(self) -> None:
        """The processing of a record begins; a message may hold several, all with its offset."""
        self._rows_of_record = 0

    def reject(self, rejected: Rejected, hint: str) -> None:
        """Put a record aside that cannot become a row; rows of it that were added already are taken out again.

        Raises:
            DataError: bad records are to end the process.
        """
        assignment = self._assignments[rejected.tp]
        if assignment.is_repeated(rejected.offset):
            return
        if self._rows_of_record and not self._bad_records.ends_the_process:
            del assignment.rows[-self._rows_of_record :]
            self._rows_of_record = 0
            self._count_waiting()
        if self._bad_records.keep(rejected, hint):
            assignment.rejected.append(rejected)
            self._rows += 1
            self._bytes += deep_size(rejected.key) + deep_size(rejected.value)

    def discard(self, tp: TopicPartition, offset: int) -> None:
        """Drop all rows of a message that ends the process."""
        if tp in self._assignments:
            self._assignments[tp].discard(offset)
            self._count_waiting()

    def revoking(self, active: bool) -> None:
        """Partitions are being revoked: no flush may ask for a pause now.

        quixstreams flushes on a thread of its own then, and leaves it behind when it takes too long. Once this is over,
        such a flush must not seal what belongs to the next life any more.
        """
        with self._revocation:
            self._revoking = active

    def stopping(self) -> None:
        """The process is asked to stop: the flush that runs or comes gets the shorter deadline."""
        self._stop_deadline = self._clock() + self._stop_seconds

    def is_delivered(self, number: int) -> bool:
        """Whether all batches up to this one are in the lake."""
        return self._writer.wait_delivered(number, 0.0)

    def raise_failure(self) -> None:
        """Raise what stopped the pipeline, if anything did."""
        failure = self._writer.failure
        if failure is not None:
            raise failure

    # --- inside -----------------------------------------------------------------------------------------------------

    @property
    def _writer(self) -> BatchWriter:
        assert self._pipeline is not None, "connect() comes before the first row"  # noqa: S101
        return self._pipeline

    def _seal(self, reason: str) -> None:
        sealed = [assignment.seal() for assignment in self._assignments.values() if assignment.waiting]
        if not sealed:
            return
        parts, rows, rejected = zip(*sealed, strict=True)
        self._last_batch += 1
        self._gathering_since = self._clock()
        size, self._rows, self._bytes = self._bytes, 0, 0
        self._writer.submit(Batch(self._last_batch, reason, parts, rows, size, tuple(chain.from_iterable(rejected))))
        self.on_sealed(self._last_batch)

    def _wait_for_the_lake(self, last_batch: int, *, revoking: bool) -> None:
        begin = self._clock()
        obstructed_since: float | None = None
        while not self._writer.wait_delivered(last_batch, _LOOK_SECONDS):
            self.raise_failure()
            now = self._clock()
            if self._writer.obstacle is None:
                obstructed_since = None
            elif obstructed_since is None:
                obstructed_since = now
            stuck = obstructed_since is not None and now - obstructed_since > _PATIENCE_SECONDS
            overdue = now >= self._deadline(begin, revoking=revoking)
            may_pause = not revoking and self._stop_deadline is None
            if may_pause and (stuck or overdue):
                raise SinkBackpressureError(retry_after=_PAUSE_SECONDS)
            if overdue:
                raise self._out_of_time(revoking=revoking)
        self.raise_failure()

    def _deadline(self, begin: float, *, revoking: bool) -> float:
        own = begin + (self._revoke_seconds if revoking else self._flush_seconds)
        return own if self._stop_deadline is None else min(own, self._stop_deadline)

    def _out_of_time(self, *, revoking: bool) -> RetryableError:
        obstacle = self._writer.obstacle
        return RetryableError(
            "writing the last rows before " + ("the partitions are given away" if revoking else "the process ends"),
            str(obstacle) if obstacle else "the pipeline did not finish in time",
            "Their offsets are not committed: the next owner of the partitions reads them again",
        )

    def _owners_changed(self) -> None:
        self._owners = frozenset(assignment.token for assignment in self._assignments.values())

    def _count_waiting(self) -> None:
        before, self._rows = self._rows, sum(assignment.waiting for assignment in self._assignments.values())
        self._bytes = self._bytes * self._rows // before if before else 0


def _too_late() -> RetryableError:
    return RetryableError(
        "flushing before the partitions are given away",
        "they are gone already",
        "Their offsets are not committed: the next owner of the partitions reads them again",
    )
