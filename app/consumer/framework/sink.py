"""The sink after ``transform()``. It collects rows, and writes them to lake and log before quixstreams commits.

The offset in Kafka is never higher than the end in the log, because quixstreams commits after ``flush()`` has returned.

If a flush cannot succeed, quixstreams goes back to its last commit. ``SinkBackpressureError`` requests no pause,
because a pause that is longer than a rebalance would never end. In two situations, a failed flush raises a plain error:

- While Kafka revokes partitions, a pause must not begin. The flush of a revocation runs on a thread of quixstreams, and
  removes all waiting records.
- While quixstreams aligns topics by time (for a join), a pause would drop fetched messages, and seek only partitions
  with processed messages. quixstreams would skip other partitions' records, and wait for topics without new records.
"""

import logging
from collections.abc import Callable
from typing import Any

from quixstreams.checkpointing.exceptions import InvalidStoredOffset
from quixstreams.models import HeadersTuples, MessageContext
from quixstreams.sinks import BaseSink, SinkBackpressureError

from app.bad_records.refusals import BadRecords, Refusal, TooBigError, check_row
from app.consumer.framework.current import ConsumerThread, CurrentMessage, Due
from app.consumer.framework.flushing import Flushing, HeldUpError, cannot_go_back, not_written
from app.consumer.framework.processed_rows import Processed, Waiting
from app.consumer.sink_observer import Observed
from app.delivery.member import Member
from app.errors import ConnectorError, DataError, RetryableError
from app.model import Rejected, Row, TopicPartition, known_timestamp
from app.monitoring.status import Consumption

logger = logging.getLogger(__name__)

_LOOK_EVERY = 64  # messages


class RowSink(BaseSink):
    """The sink. The module's docstring describes it. Only the consumer's thread calls methods, except at a revocation.

    Args:
        on_start: Function that is called when quixstreams runs, after quixstreams has set its signal handlers.
        can_go_back: Whether quixstreams can go back to its last commit. Otherwise a failed flush ends the process, and
            the next start continues from the last commit.
    """

    def __init__(
        self,
        member: Member,
        flushing: Flushing,
        bad_records: BadRecords,
        current: CurrentMessage,
        due: Due,
        observed: Observed,
        *,
        on_start: Callable[[], None] = lambda: None,
        can_go_back: bool = True,
    ) -> None:
        super().__init__(on_client_connect_success=on_start)
        self._member = member
        self._flushing = flushing
        self._bad_records = bad_records
        self._current = current
        self._due = due
        self._observed = observed
        self._can_go_back = can_go_back
        self._processed = Processed(current)
        self._is_stopping = False
        self.thread = ConsumerThread()
        self.consumed = 0
        self.is_held_up = False

    # --- called by other threads ------------------------------------------------------------------------------------

    def consumption(self, assigned: int) -> Consumption:
        """Return the state of the consumption. ``assigned`` is the number of assigned partitions."""
        assignment, processed = self._member.assignment, self._processed
        claimed = {partition.tp for partition in assignment.claimed} if assignment else set()
        return Consumption(
            assigned=assigned,
            tps=self._tps,
            unclaimed=processed.news - claimed,
            fenced=assignment.fenced if assignment else {},
            oldest=processed.oldest_uncommitted,
            consumed=self.consumed,
            due_in=self._due.seconds,
            held_bytes=self._held_bytes,
            is_full=self._is_full,
            is_paused=False,
            is_stopping=self._is_stopping,
            is_held_up=self.is_held_up,
        )

    def is_read(self, tp: TopicPartition) -> bool:
        """Whether this member consumes the partition now."""
        return tp in self._processed.by_tp

    def stop(self) -> None:
        """Make the next flush use the shorter time limit, without a retry. Safe in a signal handler."""
        self._is_stopping = True

    @property
    def _tps(self) -> tuple[TopicPartition, ...]:
        """The partitions with messages that were processed since the last assignment."""
        assignment = self._member.assignment
        return tuple({**self._processed.by_tp, **(assignment.partitions if assignment else {})})

    @property
    def _held_bytes(self) -> int:
        """Size of all rows in Python's memory in bytes, including rows in the pipeline."""
        return self._processed.nbytes + self._member.flow.buffer.held_bytes

    @property
    def _is_full(self) -> bool:
        return self._member.flow.buffer.limits.is_full(self._held_bytes)

    # --- called by quixstreams --------------------------------------------------------------------------------------

    def __str__(self) -> str:
        return "lake"  # quixstreams logs this name

    def setup(self) -> None:
        self.thread.note()

    def add(
        self, value: Any, key: Any, timestamp: int, headers: HeadersTuples, topic: str, partition: int, offset: int
    ) -> None:
        """Keep a copy of a row. Raises ``NotARowError`` if the value is not a dict, or the message is too large."""
        self.thread.is_in_message = True
        tp = TopicPartition(topic, partition)
        if self._waiting_of(tp).is_repeated(offset):
            return
        check_row(value, timestamp, headers)
        most = self._member.flow.buffer.limits.max_record_bytes
        if self._current.size > most:
            raise TooBigError(self._current.size, most)
        self._processed.add(tp, Row(value, key, timestamp, offset, headers))
        self._due.expect_flush()
        self._observed.observer.row_added(tp, key)

    def flush(self) -> None:
        """Write all processed records to lake and log.

        Raises:
            SinkBackpressureError: The flush cannot succeed now. quixstreams goes back to its last commit.
            RetryableError: The flush cannot succeed during a revocation or a stop, or quixstreams cannot go back.
        """
        if not self.thread.is_this:
            self._flush_revoked()
            return
        try:
            self._flush()
        except HeldUpError as held_up:
            self._member.runtime.metrics.paused()
            self._go_back()
            if self._is_stopping:
                raise not_written(held_up) from None
            if not self._can_go_back:
                raise cannot_go_back(str(held_up)) from None
            logger.warning("%s. Retrying: records that are not in the table are read again", held_up)
            raise SinkBackpressureError(retry_after=0) from None

    def on_paused(self) -> None:
        """Drop all waiting records, because another sink requested a pause, and quixstreams goes back."""
        self._go_back()
        if not self._can_go_back:
            raise cannot_go_back("another sink of transform() requested a pause")

    def _go_back(self) -> None:
        self.is_held_up = True
        self._member.end()
        self._processed = self._processed.rewound()
        self._due.flush_at = None

    # --- called back by the application -----------------------------------------------------------------------------

    def begin_record(self, context: MessageContext, timestamp: int) -> None:
        self.thread.is_in_message = True
        waiting = self._waiting_of(TopicPartition(context.topic, context.partition))
        waiting.begin_record()
        if waiting.uncommitted.oldest is None:
            waiting.uncommitted.consumed(context.offset, known_timestamp(timestamp))

    def message_processed(self, tp: TopicPartition, offset: int) -> None:
        self._end_message(tp, offset, is_sought=True)
        self._due.expect_flush()
        is_portion = self._member.flow.buffer.limits.is_portion(self._processed.row_bytes)
        if is_portion or self._is_full or self.consumed % _LOOK_EVERY == 0:
            self._hand_over()

    def reject(self, refusal: Refusal, *, is_deserialized: bool) -> None:
        """Keep a record that cannot become a row for the dead letter, and remove the record's rows.

        A message that was not deserialized (``is_deserialized``) has no record. If ``ON_BAD_RECORD`` is ``fail``, the
        method first writes earlier records to the lake if possible, and then raises ``DataError``.
        """
        rejected = refusal.rejected
        waiting = self._waiting_of(rejected.tp)
        is_in_checkpoint = waiting.first is not None
        if waiting.receive(rejected.offset):
            if is_in_checkpoint and not is_deserialized:
                # quixstreams raises this error for deserialized messages, because later offsets would be committed.
                raise InvalidStoredOffset(f"Offset {rejected.offset} of {rejected.tp} is redelivered")
            self._flushing.went_back = True
        waiting.take_out_record(rejected.offset)
        if not waiting.is_repeated(rejected.offset):
            self._keep(rejected, refusal.hint)
        if not is_deserialized:
            waiting.uncommitted.consumed(rejected.offset, rejected.timestamp)
            self._end_message(rejected.tp, rejected.offset, is_sought=False)
            self._due.expect_bad_records()
            if self._member.flow.buffer.limits.is_portion(self._processed.kept_bytes):
                self._flush_bad_records()
            if self._is_full:
                self._hand_over()

    def tick(self, *, is_stable: bool) -> None:
        """Do periodic work once a second, even without messages. ``is_stable``: no rebalance since the last tick."""
        if self._is_stopping:
            return  # a stopping process has no periodic work
        self._observed.report_unassigned()
        if not is_stable:
            self._assignment_changed()
        self._hand_over()
        if self._due.has_bad_records:
            self._flush_bad_records()
        self._observed.observer.turn(is_in_trouble=self._member.flow.is_in_trouble)

    # --- messages ---------------------------------------------------------------------------------------------------

    def _waiting_of(self, tp: TopicPartition) -> Waiting:
        try:
            return self._processed.by_tp[tp]
        except KeyError:
            waiting = self._processed.by_tp[tp] = Waiting()
            self._observed.message_received(tp)
            return waiting

    def _end_message(self, tp: TopicPartition, offset: int, *, is_sought: bool) -> None:
        waiting = self._waiting_of(tp)
        self._flushing.went_back |= waiting.receive(offset)
        waiting.end_message(offset, is_sought=is_sought)
        self.thread.is_in_message = False
        self._due.message_received()
        self.consumed += 1

    def _keep(self, rejected: Rejected, hint: str) -> None:
        try:
            is_kept = self._bad_records.keep(rejected, hint)
        except DataError:
            self._waiting_of(rejected.tp).drop(rejected.offset)
            self._flush_before_the_end()
            raise
        if is_kept:
            self._processed.keep(rejected)
        self._observed.observer.record_rejected(rejected)

    def _assignment_changed(self) -> None:
        """Make the next flush claim partitions again. Without waiting records, end the former assignment now."""
        self._flushing.is_outdated = True
        if self._due.flush_at is None and not self._due.keep_until:
            self._end_assignment(self._tps)
            self._observed.report_unassigned()
            self._processed = Processed(self._current)

    def _end_assignment(self, tps: tuple[TopicPartition, ...]) -> None:
        """End the assignment, because Kafka has revoked these partitions. Any thread may call this method."""
        self._observed.unassigned(tps)
        self._member.runtime.metrics.ended(tps)
        self._member.end()

    def _hand_over(self) -> None:
        """Pass records that can be written to the pipeline. If the buffer is full, wait for space."""
        self._check_revocation()
        processed, limits = self._processed, self._member.flow.buffer.limits
        is_batch = processed.rows >= limits.batch_size and self._due.is_quiet
        self._flushing.hand_over(processed, may_claim=is_batch or limits.is_portion(processed.row_bytes))
        if self._is_full:
            self._wait_for_room()

    def _wait_for_room(self) -> None:
        """Wait until the buffer has space, or until a flush is due. A flush can go back to the last commit."""
        timings = self._due.timings
        until = timings.clock() + timings.full_seconds
        while self._is_full and (self._due.seconds or 0.0) > 0:
            self._member.flow.raise_failure()
            if timings.clock() >= until:
                cause = str(self._member.flow.obstacle or f"no space within {timings.full_seconds:.0f} s")
                raise RetryableError("writing rows from a full buffer", cause, "The next start reads them again")
            self._flushing.step(self._processed)
            self._member.flow.buffer.wait(timings.look_seconds)
        self._observed.observer.waited()

    def _check_revocation(self) -> None:
        """End the process if quixstreams abandoned a revocation's flush, for example because the process was frozen."""
        if self.thread.is_revoking:
            cause = "the flush of the former assignment has not ended"
            raise RetryableError("consuming", cause, "The next start continues from the journal")

    # --- flushes ----------------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        self._check_revocation()
        timings = self._due.timings
        try:
            seconds = timings.stop_seconds if self._is_stopping else timings.flush_seconds
            self._flushing.deliver(self._processed, seconds)
        finally:
            self._observed.observer.flushed()
        self._processed.delivered()
        self._due.flushed()
        self.is_held_up = False

    def _flush_revoked(self) -> None:
        """Flush on a thread of quixstreams. quixstreams may abandon the flush, so waiting records are removed first."""
        self.thread.is_revoking = True
        processed, self._processed = self._processed, Processed(self._current)
        self._due.flushed()
        try:
            self._flushing.deliver(processed, self._due.timings.revoke_seconds)
        except HeldUpError as held_up:
            raise not_written(held_up) from None
        finally:
            self._end_assignment(tuple(processed.by_tp))
            self.thread.is_revoking = False

    def _flush_before_the_end(self) -> None:
        """Flush the records that precede the bad record. The process then ends. The next start ends at this record."""
        try:
            self._flush()
        except (ConnectorError, HeldUpError) as error:
            logger.warning("%s. The next start reads the records before the bad record again", error)

    def _flush_bad_records(self) -> None:
        """Flush bad records if quixstreams has processed no message since its last commit, and does not flush."""
        if self._due.flush_at is not None:
            return
        try:
            self._flush()
        except HeldUpError as held_up:
            logger.warning("writing bad records: %s. Retrying", held_up)
            self.is_held_up = True
            self._due.flushed(keeps_bad_records=True)
            self._member.end()  # the batch in progress is dropped
            self._processed.unsealed()
