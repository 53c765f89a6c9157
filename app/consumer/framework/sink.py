"""The sink of the framework's lane: collects rows, and brings them into lake and log before quixstreams commits.

Kafka's offset never passes the log's end, for quixstreams commits once ``flush()`` has returned.

Where a flush cannot succeed, quixstreams goes back to its last commit. ``SinkBackpressureError`` has no seconds: a
pause that outlives a rebalance would never end. While partitions are revoked it must not even begin: that flush, on a
thread of quixstreams, takes out all that waits and fails with a plain error. Nor where quixstreams aligns topics by
time, as for a join: it then drops what it has fetched ahead, and seeks only partitions of which it has processed
messages. Records of the others would be passed over, and a topic without news would hold up those that it is joined to.
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
    """See the module. All methods are for the consumer's thread, but for the flush of a revocation.

    Args:
        on_start: called once quixstreams runs, after it has set its own handlers of signals.
        can_go_back: whether quixstreams can go back to its last commit; else a flush that cannot succeed ends the
            process, and the next start does so.
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

    # --- seen from other threads ------------------------------------------------------------------------------------

    def consumption(self, assigned: int) -> Consumption:
        """``assigned`` is the number of assigned partitions, which quixstreams tells no sink."""
        assignment, processed = self._member.assignment, self._processed
        claimed = {each.tp for each in assignment.claimed} if assignment else set()
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
        """Whether messages of this partition come now, as far as this member knows."""
        return tp in self._processed.of

    def stop(self) -> None:
        """Give the next flush the shorter deadline, and no second try; safe in a signal handler."""
        self._is_stopping = True

    @property
    def _tps(self) -> tuple[TopicPartition, ...]:
        """The partitions of which messages were processed since the last assignment."""
        assignment = self._member.assignment
        return tuple({**self._processed.of, **(assignment.partitions if assignment else {})})

    @property
    def _held_bytes(self) -> int:
        """Bytes of all rows in Python, here and in the pipeline."""
        return self._processed.nbytes + self._member.flow.buffer.held_bytes

    @property
    def _is_full(self) -> bool:
        return self._member.flow.buffer.limits.is_full(self._held_bytes)

    # --- called by quixstreams --------------------------------------------------------------------------------------

    def __str__(self) -> str:
        return "lake"  # in its log

    def setup(self) -> None:
        self.thread.note()

    def add(
        self, value: Any, key: Any, timestamp: int, headers: HeadersTuples, topic: str, partition: int, offset: int
    ) -> None:
        """Take a copy of a row; raises ``NotARowError`` if the value is no dict, or the message is too big."""
        self.thread.is_amid_message = True
        tp = TopicPartition(topic, partition)
        if self._of(tp).is_repeated(offset):
            return
        check_row(value, timestamp, headers)
        most = self._member.flow.buffer.limits.max_record_bytes
        if self._current.size > most:
            raise TooBigError(self._current.size, most)
        self._processed.add(tp, Row(value, key, timestamp, offset, headers))
        self._due.expect_flush()
        self._observed.observer.row_added(tp, key)

    def flush(self) -> None:
        """Bring all that was processed into lake and log.

        Raises:
            SinkBackpressureError: it cannot be done now; quixstreams goes back to its last commit.
            RetryableError: the same while partitions are revoked or the process stops, or if it cannot go back.
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
            logger.warning("what is not in the table yet is read again: %s", held_up)
            raise SinkBackpressureError(retry_after=0) from None

    def on_paused(self) -> None:
        """Drop all that waits: another sink asks for a pause, and quixstreams goes back to its last commit."""
        self._go_back()
        if not self._can_go_back:
            raise cannot_go_back("another sink of transform() asks for a pause")

    def _go_back(self) -> None:
        self.is_held_up = True
        self._member.end()
        self._processed = self._processed.rewound()
        self._due.flush_at = None

    # --- called back by the application -----------------------------------------------------------------------------

    def begin_record(self, context: MessageContext, timestamp: int) -> None:
        """Note that the processing of a record of the input topic begins."""
        self.thread.is_amid_message = True
        waiting = self._of(TopicPartition(context.topic, context.partition))
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
        """Keep a record that cannot become a row for the dead letter; take out the rows that it already gave.

        A message that is not ``is_deserialized`` gave no record at all. Raises ``DataError`` if ``ON_BAD_RECORD`` is
        ``fail``; what came before is then in the lake, if that can be.
        """
        rejected = refusal.rejected
        waiting = self._of(rejected.tp)
        is_in_checkpoint = waiting.first is not None
        if waiting.comes(rejected.offset):
            if is_in_checkpoint and not is_deserialized:
                # quixstreams does so itself for a message that deserializes: it would commit later offsets.
                raise InvalidStoredOffset(f"Offset {rejected.offset} of {rejected.tp} comes again")
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
        """Do what is due without messages, once a second; ``is_stable``: no rebalance since the last tick."""
        if self._is_stopping:
            return  # nothing more is due
        self._observed.tell_unassigned()
        if not is_stable:
            self._assignment_changed()
        self._hand_over()
        if self._due.has_bad_records:
            self._flush_bad_records()
        self._observed.observer.turn(is_in_trouble=self._member.flow.is_in_trouble)

    # --- messages ---------------------------------------------------------------------------------------------------

    def _of(self, tp: TopicPartition) -> Waiting:
        try:
            return self._processed.of[tp]
        except KeyError:
            waiting = self._processed.of[tp] = Waiting()
            self._observed.came(tp)
            return waiting

    def _end_message(self, tp: TopicPartition, offset: int, *, is_sought: bool) -> None:
        waiting = self._of(tp)
        self._flushing.went_back |= waiting.comes(offset)
        waiting.end_message(offset, is_sought=is_sought)
        self.thread.is_amid_message = False
        self._due.came()
        self.consumed += 1

    def _keep(self, rejected: Rejected, hint: str) -> None:
        try:
            is_kept = self._bad_records.keep(rejected, hint)
        except DataError:
            self._of(rejected.tp).drop(rejected.offset)
            self._flush_before_the_end()
            raise
        if is_kept:
            self._processed.keep(rejected)
        self._observed.observer.record_rejected(rejected)

    def _assignment_changed(self) -> None:
        """Claim again what comes from now on. Forget the former assignment, unless the next one has begun."""
        self._flushing.is_outdated = True
        if self._due.flush_at is None and not self._due.keep_until:
            self._end_assignment(self._tps)
            self._observed.tell_unassigned()
            self._processed = Processed(self._current)

    def _end_assignment(self, tps: tuple[TopicPartition, ...]) -> None:
        """End the assignment: Kafka has taken these partitions away. From any thread."""
        self._observed.unassigned(tps)
        self._member.runtime.metrics.ended(tps)
        self._member.end()

    def _hand_over(self) -> None:
        """Hand over what can be written; wait for room if the buffer is full."""
        self._check_revocation()
        processed, limits = self._processed, self._member.flow.buffer.limits
        is_batch = processed.rows >= limits.batch_size and self._due.is_quiet
        is_worth_it = is_batch or limits.is_portion(processed.row_bytes)
        self._flushing.hand_over(processed, is_worth_it=is_worth_it)
        if self._is_full:
            self._wait_for_room()

    def _wait_for_room(self) -> None:
        """Wait until there is room, or until a flush is due, which can go back."""
        timings = self._due.timings
        until = timings.clock() + timings.full_seconds
        while self._is_full and (self._due.seconds or 0.0) > 0:
            self._member.flow.raise_failure()
            if timings.clock() >= until:
                cause = str(self._member.flow.obstacle or "the pipeline did not take them in time")
                raise RetryableError("writing rows from a full buffer", cause, "The next start reads them again")
            self._flushing.step(self._processed)
            self._member.flow.buffer.wait(timings.look_seconds)
        self._observed.observer.waited()

    def _check_revocation(self) -> None:
        """End the process if quixstreams has left a revocation's flush behind, as after a freeze."""
        if self.thread.is_revoking:
            cause = "the flush of the former assignment has not ended"
            raise RetryableError("consuming", cause, "The next start goes on from the journal")

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
        """Flush on a thread of quixstreams, which may leave it behind: it takes out all that waits."""
        self.thread.is_revoking = True
        processed, self._processed = self._processed, Processed(self._current)
        self._due.flushed()
        try:
            self._flushing.deliver(processed, self._due.timings.revoke_seconds)
        except HeldUpError as held_up:
            raise not_written(held_up) from None
        finally:
            self._end_assignment(tuple(processed.of))
            self.thread.is_revoking = False

    def _flush_before_the_end(self) -> None:
        """Flush what came before a bad record that ends the process: the next start drops it, and ends there again."""
        try:
            self._flush()
        except (ConnectorError, HeldUpError) as error:
            logger.warning("what came before is read again: %s", error)

    def _flush_bad_records(self) -> None:
        """Flush where quixstreams does not: it knows of no message since its last commit."""
        if self._due.flush_at is not None:
            return
        try:
            self._flush()
        except HeldUpError as held_up:
            logger.warning("bad records wait: %s", held_up)
            self.is_held_up = True
            self._due.flushed(keeps_bad_records=True)
            self._member.end()  # what is on its way is dropped
            self._processed.unsealed()
