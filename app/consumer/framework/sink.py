"""The sink of the framework's lane: collects rows, and brings them into lake and log before quixstreams commits.

quixstreams begins at the group's offset after an assignment, and tells no sink of assignments. So the first flush after
one claims the partitions of which messages were processed, as a generation, and drops what the log already has. Kafka's
offset never passes the log's end, for quixstreams commits once ``flush()`` has returned.

Where a flush cannot succeed, quixstreams goes back to its last commit. ``SinkBackpressureError`` has no seconds: a
pause that outlives a rebalance would never end. While partitions are revoked it must not even begin: that flush, on a
thread of quixstreams, takes out all that waits and fails with a plain error. Nor where quixstreams aligns topics by
time, as for a join: it then drops what it has fetched ahead, and seeks only partitions of which it has processed
messages. Records of the others would be passed over, and a topic without news would hold up those that it is joined to.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from quixstreams.models import HeadersTuples, MessageContext
from quixstreams.sinks import BaseSink, SinkBackpressureError

from app.bad_records.policy import BadRecords
from app.bad_records.refusals import Refusal, TooBigError, no_object, too_deep
from app.batch_limits import BatchLimits
from app.consumer.claiming import Claiming, log_starts, mark_set_offsets
from app.consumer.framework.messages import CurrentMessage
from app.consumer.framework.own_copy import own_copy
from app.consumer.framework.row_size import RowSizer
from app.consumer.framework.waiting import Waiting
from app.consumer.partitions import Partitions, taken_over
from app.consumer.portions import BatchWriter, Portions
from app.consumer.sink_observer import SinkObserver
from app.errors import ConnectorError, DataError, RetryableError
from app.model import Batch, BatchPart, Rejected, Row, TopicPartition, deep_size, known_timestamp
from app.monitoring.metrics import Metrics
from app.timings import DEFAULT, Timings

logger = logging.getLogger(__name__)

_MESSAGE_OVERHEAD = 300  # of a message that is kept beside its row, in bytes
_LOOK_EVERY = 64  # messages
_CLAIM_LOOK_SECONDS = 0.05
_MOST_FENCES = 3  # in ``Timings.claim_again_seconds``

_AllWaiting = dict[TopicPartition, Waiting]


class _HeldUpError(Exception):
    """What waits cannot be brought into lake and log now."""


class RowSink(BaseSink):
    """See the module. All methods are for the consumer's thread, but for the flush of a revocation.

    Args:
        pipeline: writes the batches.
        partitions: of the present generation.
        claims: claim partitions in the background.
        limits: decide when a batch ends, and why.
        bad_records: the policy for records that cannot become rows.
        commit_interval: that of quixstreams, in seconds.
        current: the message that is processed.
        observer: notified of records and turns.
        on_start: called once quixstreams runs, after it has set its own handlers of signals.
        commit: that of quixstreams' consumer, with the connector's mark.
        metrics: records offsets, pauses and losses.
        timings: deadlines of flushes.
        can_go_back: whether quixstreams can go back to its last commit; else a flush that cannot succeed ends the
            process, and the next start does so.

    Attributes:
        consumed: how many messages came.
        is_held_up: whether the last flush failed.
    """

    def __init__(
        self,
        *,
        pipeline: BatchWriter,
        partitions: Partitions,
        claims: Claiming,
        limits: BatchLimits,
        bad_records: BadRecords,
        commit_interval: float,
        current: CurrentMessage,
        observer: SinkObserver | None = None,
        on_start: Callable[[], None] = lambda: None,
        commit: Callable[..., object] = lambda **_: None,
        metrics: Metrics | None = None,
        timings: Timings = DEFAULT,
        can_go_back: bool = True,
    ) -> None:
        super().__init__(on_client_connect_success=on_start)
        self._pipeline = pipeline
        self.partitions = partitions
        self._claims = claims
        self._limits = limits
        self._portions = Portions(pipeline, limits, timings)
        self._bad_records = bad_records
        self._commit_interval = commit_interval
        self._current = current
        self._observer = observer
        self._commit = commit
        self._metrics = metrics or Metrics()
        self._timings = timings
        self._can_go_back = can_go_back
        self._clock = timings.clock
        self._sizer = RowSizer()
        self._waiting: _AllWaiting = {}
        self._bytes = 0  # of rows that are not sealed
        self._kept_bytes = 0  # of bad records, until they are in the lake
        self._number = 0  # of a part
        self._since_look = 0  # messages
        self._is_outdated = False  # the generation may be of a former assignment
        self._flush_at: float | None = None  # quixstreams flushes by then; ``None`` if it has nothing to commit
        self._keep_until = 0.0  # bad records alone
        self._fences: deque[float] = deque(maxlen=_MOST_FENCES)  # when
        self._thread = threading.get_ident()
        self._is_stopping = self._is_revoking = self._is_amid_message = False
        self._observed: set[TopicPartition] = set()  # partitions that the observer knows
        self._given_away: list[TopicPartition] = []  # and the observer does not know yet
        self.consumed = 0
        self.is_held_up = False

    # --- seen from other threads ------------------------------------------------------------------------------------

    @property
    def tps(self) -> tuple[TopicPartition, ...]:
        """The partitions of which messages were processed since the last assignment."""
        return tuple({**self._waiting, **self.partitions.by_tp})

    @property
    def unclaimed(self) -> frozenset[TopicPartition]:
        """Those of them that are not claimed yet."""
        claimed = {each.tp for each in self.partitions.claimed}
        return frozenset(tp for tp, each in self._waiting.copy().items() if each.has_news and tp not in claimed)

    @property
    def oldest_uncommitted(self) -> dict[TopicPartition, float]:
        """See ``Partitions.oldest_uncommitted``."""
        known = ((tp, each.uncommitted.oldest) for tp, each in self._waiting.copy().items())
        return {tp: oldest for tp, oldest in known if oldest is not None}

    @property
    def due_in(self) -> float | None:
        """Seconds until the next flush, negative where it is late; ``None`` if nothing waits for it."""
        return None if self._flush_at is None else self._flush_at - self._clock()

    @property
    def held_bytes(self) -> int:
        """Bytes of all rows in Python, here and in the pipeline."""
        return self._bytes + self._kept_bytes + self._pipeline.held_bytes

    @property
    def is_full(self) -> bool:
        """Whether the buffer has reached its bound."""
        return self._limits.is_full(self.held_bytes)

    @property
    def is_in_trouble(self) -> bool:
        """Whether the pipeline waits for another system, or has failed."""
        return self._pipeline.obstacle is not None or self._pipeline.failure is not None

    def stopping(self) -> None:
        """Give the next flush the shorter deadline, and no second try; safe in a signal handler."""
        self._is_stopping = True

    @property
    def is_polled(self) -> bool:
        """Whether quixstreams polls now, in this thread: all rows of the messages that came are there."""
        return threading.get_ident() == self._thread and not self._is_amid_message

    # --- called by quixstreams --------------------------------------------------------------------------------------

    def __str__(self) -> str:
        return "lake"  # in its log

    def setup(self) -> None:
        """Note the thread that consumes; see ``BaseSink.setup``."""
        self._thread = threading.get_ident()

    def add(
        self, value: Any, key: Any, timestamp: int, headers: HeadersTuples, topic: str, partition: int, offset: int
    ) -> None:
        """Take a copy of a row.

        Raises:
            NotARowError: the value is no dict, or the message is too big.
        """
        self._is_amid_message = True
        waiting = self._of(TopicPartition(topic, partition))
        if waiting.is_repeated(offset):
            return
        if not isinstance(value, dict):
            raise no_object(value)
        size = self._current.size
        if size > self._limits.max_record_bytes:
            raise TooBigError(size, self._limits.max_record_bytes)
        try:
            value, key, headers = own_copy(value), own_copy(key), own_copy(headers)
        except RecursionError:
            raise too_deep() from None
        rows = waiting.rows
        message = self._current.of(topic, partition, offset)
        if message is not None:
            of_message = _MESSAGE_OVERHEAD + len(message) + len(message.key() or b"")  # its headers are the row's too
            if rows and rows[-1].offset == offset:  # it became several rows
                self._bytes -= of_message if rows[-1].message is not None else 0
                rows[-1] = rows[-1]._replace(message=None)
                message = None
            else:
                self._bytes += of_message
        row = Row(value, key, timestamp, offset, headers, message)
        rows.append(row)
        self._bytes += self._sizer.size((row.value, row.key, row.headers), size)
        self._expect_flush()
        if self._observer is not None:
            self._observer.row_added(TopicPartition(topic, partition), key)

    def flush(self) -> None:
        """Bring all that was processed into lake and log.

        Raises:
            SinkBackpressureError: it cannot be done now; quixstreams goes back to its last commit.
            RetryableError: the same while partitions are revoked or the process stops, or if it cannot go back.
            ConnectorError: it cannot be done at all.
        """
        if threading.get_ident() != self._thread:
            self._flush_revoked()
            return
        try:
            self._flush()
        except _HeldUpError as held_up:
            self._metrics.paused()
            self._drop()
            if self._is_stopping:
                raise _not_written(held_up) from None
            if not self._can_go_back:
                raise _cannot_go_back(str(held_up)) from None
            logger.warning("what is not in the table yet is read again: %s", held_up)
            raise SinkBackpressureError(retry_after=0) from None

    def on_paused(self) -> None:
        """Drop all that waits: another sink asks for a pause, and quixstreams goes back to its last commit.

        Raises:
            RetryableError: it cannot go back.
        """
        self._drop()
        if not self._can_go_back:
            raise _cannot_go_back("another sink of transform() asks for a pause")

    def _drop(self) -> None:
        self.is_held_up = True
        self.partitions.end()
        self._waiting = {tp: left for tp, each in self._waiting.items() if (left := each.rewound())}
        self._bytes = self._kept_bytes = 0
        self._flush_at = None

    def is_read(self, tp: TopicPartition) -> bool:
        """Whether messages of this partition come now, as far as this member knows."""
        return tp in self._waiting

    # --- called back by the application -----------------------------------------------------------------------------

    def begin_record(self, context: MessageContext, timestamp: int) -> None:
        """Note that the processing of a record of the input topic begins."""
        self._is_amid_message = True
        waiting = self._of(TopicPartition(context.topic, context.partition))
        waiting.begin_record()
        if waiting.uncommitted.oldest is None:
            waiting.uncommitted.consumed(context.offset, known_timestamp(timestamp))

    def message_processed(self, tp: TopicPartition, offset: int) -> None:
        """Note that all rows of a message are there.

        Raises:
            ConnectorError: the pipeline failed with an error that no retry corrects, or has no room for too long.
        """
        self._end_message(tp, offset, is_sought=True)
        self._expect_flush()
        self._since_look += 1
        if self._since_look >= _LOOK_EVERY or self._limits.is_portion(self._bytes) or self.is_full:
            self._look()

    def reject(self, refusal: Refusal, *, is_deserialized: bool) -> None:
        """Keep a record that cannot become a row for the dead letter; take out the rows that it already gave.

        Args:
            refusal: the record, and why.
            is_deserialized: ``False`` where the message gave no record at all.

        Raises:
            DataError: ``ON_BAD_RECORD`` is ``fail``; what came before is in the lake, if that can be.
        """
        rejected = refusal.rejected
        waiting = self._of(rejected.tp)
        self._is_outdated |= waiting.comes(rejected.offset)
        waiting.take_out(rejected.offset)
        if not waiting.is_repeated(rejected.offset):
            self._keep(rejected, refusal.hint, waiting)
        if not is_deserialized:
            waiting.uncommitted.consumed(rejected.offset, rejected.timestamp)
            self._end_message(rejected.tp, rejected.offset, is_sought=False)
            self._keep_until = self._keep_until or self._clock() + self._commit_interval
            if self._limits.is_portion(self._kept_bytes):
                self._flush_bad_records()

    def tick(self, *, is_stable: bool) -> None:
        """Do what is due without messages; called about once a second.

        Args:
            is_stable: whether the partitions are assigned as they were at the last tick.

        Raises:
            ConnectorError: consuming must end.
        """
        if self._is_stopping:
            return  # nothing more is due
        self._forget_given_away()
        if not is_stable:
            self._assignment_changed()
        self._look()
        if self._keep_until and self._clock() >= self._keep_until:
            self._flush_bad_records()
        if self._observer is not None:
            self._observer.turn(is_in_trouble=self.is_in_trouble)

    # --- messages ---------------------------------------------------------------------------------------------------

    def _of(self, tp: TopicPartition) -> Waiting:
        try:
            return self._waiting[tp]
        except KeyError:
            waiting = self._waiting[tp] = Waiting()
            self._forget_given_away()
            if self._observer is not None and tp not in self._observed:
                self._observed.add(tp)
                self._observer.assigned([tp])
            return waiting

    def _expect_flush(self) -> None:
        if self._flush_at is None:
            self._flush_at = self._clock() + self._commit_interval

    def _end_message(self, tp: TopicPartition, offset: int, *, is_sought: bool) -> None:
        waiting = self._of(tp)
        self._is_outdated |= waiting.comes(offset)
        waiting.end_message(offset, is_sought=is_sought)
        self._is_amid_message = False
        self._portions.came()
        self.consumed += 1

    def _keep(self, rejected: Rejected, hint: str, waiting: Waiting) -> None:
        with suppress(RecursionError):
            key, value, headers = map(own_copy, (rejected.key, rejected.value, rejected.headers))
            rejected = replace(rejected, key=key, value=value, headers=headers)
        try:
            is_kept = self._bad_records.keep(rejected, hint)
        except DataError:
            waiting.rows = [row for row in waiting.rows if row.offset != rejected.offset]
            self._flush_before_the_end()
            raise
        if is_kept:
            waiting.rejected.append(rejected)
            size = deep_size(rejected.key) + deep_size(rejected.value) + deep_size(rejected.headers)
            self._kept_bytes += size
        if self._observer is not None:
            self._observer.record_rejected(rejected)

    def _assignment_changed(self) -> None:
        """Claim again what comes from now on. Forget the former assignment, unless the next one has begun."""
        self._is_outdated = True
        if self._flush_at is None and not self._keep_until:
            self._given_away += self.tps
            self._forget_given_away()
            self._metrics.ended(self.tps)
            self.partitions.end()
            self._waiting, self._bytes, self._kept_bytes = {}, 0, 0

    def _forget_given_away(self) -> None:
        if self._given_away and self._observer is not None:
            self._observer.unassigned(self._given_away)
            self._observed -= set(self._given_away)
        self._given_away = []

    def _check_revocation(self) -> None:
        """End the process if quixstreams has left a revocation's flush behind, as after a freeze.

        Raises:
            RetryableError: it has.
        """
        if self._is_revoking:
            cause = "the flush of the former assignment has not ended"
            raise RetryableError("consuming", cause, "The next start goes on from the journal")

    # --- portions ---------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Hand a portion to the pipeline if it is worth it; wait for room if the buffer is full."""
        self._since_look = 0
        self._check_revocation()
        self._claims.check()
        if self._pipeline.failure is not None:
            raise self._pipeline.failure
        self._admit(self._waiting)
        reason = self._portions.reason_to_end(sum(len(each.rows) for each in self._waiting.values()))
        is_due = reason is not None or self._limits.is_portion(self._bytes)
        if is_due and self.partitions.token is None:
            self._begin(self._waiting)
        if is_due and not self._needs_claim(self._waiting) and not self.partitions.is_fenced:
            self._seal(self._waiting, reason)
        if self.is_full:
            self._wait_for_room()

    def _wait_for_room(self) -> None:
        """Wait until there is room, or until a flush is due, which can go back.

        Raises:
            RetryableError: neither comes in time.
        """
        until = self._clock() + self._timings.full_seconds
        while self.is_full and self._flush_at is not None and self._clock() < self._flush_at:
            if self._clock() >= until:
                cause = str(self._pipeline.obstacle or "the pipeline did not take them in time")
                raise RetryableError("writing rows from a full buffer", cause, "The next start reads them again")
            if not self.partitions.is_fenced:
                self._step(self._waiting)
            self._pipeline.wait_for_change(self._timings.look_seconds)
        if self._observer is not None:
            self._observer.waited()

    def _seal(self, waiting: Mapping[TopicPartition, Waiting], reason: str | None) -> None:
        """Hand what waits to the pipeline; with a reason, it ends the batch."""
        self._portions.submit(self._portion(waiting, reason), reason)

    def _portion(self, waiting: Mapping[TopicPartition, Waiting], reason: str | None) -> Batch | None:
        news = {tp: each for tp, each in waiting.items() if each.has_news and tp in self.partitions.by_tp}
        sealed = [each.seal(tp) for tp, each in news.items() if each.has_records]
        if not (sealed or (news and reason)):
            return None
        token, self._number = str(self.partitions.token), self._number + 1
        size, self._bytes = self._bytes, 0
        return Batch(
            self._portions.last + 1,
            reason,
            parts=tuple(BatchPart(offsets, token, self._number) for offsets, _, _ in sealed),
            rows=tuple(rows for _, rows, _ in sealed),
            size=size,
            rejected=tuple(each for _, _, rejected in sealed for each in rejected),
            messages=tuple([] for _ in sealed),
            owner=token,
            ends={tp: each.seal_end() for tp, each in news.items() if each.processed >= 0},
        )

    # --- claims -----------------------------------------------------------------------------------------------------

    def _needs_claim(self, waiting: Mapping[TopicPartition, Waiting]) -> bool:
        """Whether something waits that the present generation may not write."""
        if self.partitions.unclaimed:
            return True
        claimed = () if self._is_outdated else self.partitions.by_tp
        return any(each.has_news and tp not in claimed for tp, each in waiting.items())

    def _begin(self, waiting: Mapping[TopicPartition, Waiting]) -> None:
        """Begin a generation of all partitions with news, and of those of the former one, which is in the lake."""
        former = () if self._is_outdated else self.partitions.tps
        tps = sorted({*(tp for tp, each in waiting.items() if each.has_news), *former})
        self._is_outdated = False
        self._claims.begin(tps, self.partitions.begin(tps))

    def _admit(self, waiting: Mapping[TopicPartition, Waiting]) -> None:
        """Drop what the log has already of the partitions whose claims have succeeded."""
        claims = [claim for claim in self._claims.finished() if claim.tp in self.partitions.by_tp]
        log_starts(claims)
        mark_set_offsets(claims, self._commit)
        for claim in claims:
            if claim.start.is_loss:
                self._metrics.lost(f"{claim.tp}: {claim.start.remark}")
            end = claim.start.in_table
            self.partitions.by_tp[claim.tp].begin(end + 1)
            self._metrics.begins(claim.tp, end + 1)
            dropped = waiting[claim.tp].begin_after(end) if claim.tp in waiting else 0
            logger.info("claimed: %s after %d; %d rows are in the table already", claim.tp, end, dropped)

    # --- flushes ----------------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        self._check_revocation()
        seconds = self._timings.stop_seconds if self._is_stopping else self._timings.flush_seconds
        try:
            self._deliver(self._waiting, self._clock() + seconds)
        finally:
            if self._observer is not None:
                self._observer.flushed()
        for each in self._waiting.values():
            each.delivered()
        self._metrics.committed({tp: each.processed + 1 for tp, each in self._waiting.items() if each.processed >= 0})
        self._flush_at, self._keep_until, self._kept_bytes, self.is_held_up = None, 0.0, 0, False

    def _flush_revoked(self) -> None:
        """Flush on a thread of quixstreams, which may leave it behind: it takes out all that waits."""
        self._is_revoking = True
        waiting, self._waiting = self._waiting, {}
        self._flush_at, self._keep_until, self._kept_bytes = None, 0.0, 0
        try:
            self._deliver(waiting, self._clock() + self._timings.revoke_seconds)
        except _HeldUpError as held_up:
            raise _not_written(held_up) from None
        finally:
            self._given_away += waiting
            self._metrics.ended(waiting)
            self.partitions.end()
            self._bytes, self._is_revoking = 0, False

    def _flush_before_the_end(self) -> None:
        """Flush what came before a bad record that ends the process: the next start drops it, and ends there again."""
        try:
            self._flush()
        except (ConnectorError, _HeldUpError) as error:
            logger.warning("what came before is read again: %s", error)

    def _flush_bad_records(self) -> None:
        """Flush where quixstreams does not: it knows of no message since its last commit."""
        if self._flush_at is not None:
            return
        try:
            self._flush()
        except _HeldUpError as held_up:
            logger.warning("bad records wait: %s", held_up)
            self.is_held_up = True
            self._keep_until = self._clock() + self._commit_interval
            self.partitions.end()  # what is on its way is dropped
            for each in self._waiting.values():
                each.unsealed()

    def _deliver(self, waiting: _AllWaiting, until: float) -> None:
        """Claim what is not claimed, and bring all that waits into lake and log.

        Raises:
            _HeldUpError: another member has closed the log, or it takes too long.
            ConnectorError: it cannot be done at all.
        """
        while True:
            is_done = self._step(waiting)
            if self._pipeline.failure is not None:
                raise self._pipeline.failure
            if self.partitions.is_fenced:
                raise self._fenced()
            if is_done:
                return
            if self._clock() >= until:
                raise _HeldUpError(str(self._pipeline.obstacle or "claiming or writing takes too long"))
            self._wait_a_moment()

    def _step(self, waiting: _AllWaiting) -> bool:
        """Do the next step of a delivery; returns whether all is in lake and log, unless the log is closed."""
        self._admit(waiting)
        if not self.partitions.unclaimed:
            self._seal({} if self._is_outdated else waiting, self._limits.at_flush(self.held_bytes))
        is_delivered = self._pipeline.wait_delivered(self._portions.last, 0.0)
        if not self._needs_claim(waiting):
            return is_delivered
        # Rows of a closed log are dropped, and count as delivered.
        is_at_rest = self.partitions.token is None or (is_delivered and not self.partitions.is_fenced)
        if is_at_rest and not self.partitions.unclaimed:
            self._begin(waiting)
        return False

    def _wait_a_moment(self) -> None:
        if self.partitions.unclaimed:
            self._pipeline.wait_for_change(_CLAIM_LOOK_SECONDS)
        else:
            self._pipeline.wait_delivered(self._portions.last, self._timings.look_seconds)

    def _fenced(self) -> Exception:
        """The error after another member has closed the log: two of different clusters would do it for ever in turn."""
        reason, now = next(iter(self.partitions.fenced.values()), "the log was closed"), self._clock()
        if len(self._fences) == _MOST_FENCES and now - self._fences[0] <= self._timings.claim_again_seconds:
            return taken_over(reason)
        self._fences.append(now)
        return _HeldUpError(reason)


def _cannot_go_back(cause: str) -> RetryableError:
    hint = "quixstreams cannot go back where it joins topics. The next start reads again what is not in the table"
    return RetryableError("writing rows", cause, hint)


def _not_written(held_up: _HeldUpError) -> RetryableError:
    return RetryableError(
        "writing the last rows before the partitions are given away",
        str(held_up),
        "Their offsets are not committed: the next owner of the partitions reads them again",
    )
