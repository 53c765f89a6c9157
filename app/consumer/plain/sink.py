"""Takes the messages of claimed partitions and seals them into portions for the pipeline."""

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import chain, groupby
from operator import methodcaller

from app.bad_records.policy import BadRecords
from app.bad_records.refusals import Refusal, TooBigError, headers_size, message_size, not_deserialized
from app.batch_limits import BatchLimits
from app.consumer.partitions import Partition, Partitions
from app.consumer.portions import BatchWriter, Portions
from app.consumer.sink_observer import SinkObserver
from app.model import Batch, Message, Row, TopicPartition, deep_size, headers_of_all
from app.timings import DEFAULT, Timings

_MESSAGE_OVERHEAD = 300  # of a message and its value as objects of Python
_HEADER_OVERHEAD = 200  # of a name and a value as objects of Python
_COPIES = 2  # of the value: as it came, and as columns

_key = methodcaller("key")


class MessageSink:
    """Holds messages until a portion of them goes to the pipeline. For the consumer's thread.

    Args:
        pipeline: writes the batches.
        partitions: of the present generation.
        limits: decide when a batch ends, and why.
        bad_records: the policy for records that cannot become rows.
        commit_interval: seconds after which a batch ends, however few rows it has.
        observer: notified of assignments, records and turns.
        timings: the clock.

    Attributes:
        consumed: how many messages came.
    """

    def __init__(
        self,
        *,
        pipeline: BatchWriter,
        partitions: Partitions,
        limits: BatchLimits,
        bad_records: BadRecords,
        commit_interval: float,
        observer: SinkObserver | None = None,
        timings: Timings = DEFAULT,
    ) -> None:
        self._pipeline = pipeline
        self.partitions = partitions
        self.limits = limits
        self._bad_records = bad_records
        self._commit_interval = commit_interval
        self.observer = observer
        self._clock = timings.clock
        self._rows = self._bytes = 0
        self._portions = Portions(pipeline, limits, timings)
        self._sealed: deque[tuple[int, Mapping[TopicPartition, int]]] = deque()  # portions, each with its ends
        self._is_due = False  # a batch is to end as soon as the writer takes it
        self._due_at = self._clock() + commit_interval
        self.consumed = 0

    # --- seen from other threads ------------------------------------------------------------------------------------

    @property
    def held_bytes(self) -> int:
        """Bytes of all messages in Python, here and in the pipeline."""
        return self._bytes + self._pipeline.held_bytes

    @property
    def room(self) -> int:
        """Bytes that the buffer still takes."""
        return self.limits.max_buffer_bytes - self.held_bytes

    @property
    def is_full(self) -> bool:
        """Whether the buffer has reached its bound."""
        return self.limits.is_full(self.held_bytes)

    @property
    def is_in_trouble(self) -> bool:
        """Whether the pipeline waits for another system, or has failed."""
        return self._pipeline.obstacle is not None or self._pipeline.failure is not None

    @property
    def due_in(self) -> float:
        """Seconds until the batch ends, negative where it is late."""
        return self._due_at - self._clock()

    # --- messages ---------------------------------------------------------------------------------------------------

    def add(self, partition: Partition, messages: Sequence[Message]) -> int:
        """Take messages by rising offsets, and reject those that are too big; returns the bytes of all in memory."""
        headers = list(chain.from_iterable(filter(None, headers_of_all(messages))))
        values, keys = sum(map(len, messages)), sum(map(len, filter(None, map(_key, messages))))
        beside, most = keys + headers_size(headers), self.limits.max_record_bytes
        if values + beside > most and any(message_size(each) > most for each in messages):
            return self._add_in_turn(partition, messages)
        size = _COPIES * values + beside + _MESSAGE_OVERHEAD * len(messages) + _HEADER_OVERHEAD * len(headers)
        partition.messages += messages
        self._rows += len(messages)
        self._bytes += size
        self._portions.came()
        if self.observer is not None:
            self.observer.messages_added(partition.tp, messages)
        return size

    def _add_in_turn(self, partition: Partition, messages: Sequence[Message]) -> int:
        """Reject messages that are too big, which frees their memory; the dead letter keeps their beginning."""
        size, most = 0, self.limits.max_record_bytes
        for is_too_big, some in groupby(messages, lambda message: message_size(message) > most):
            if not is_too_big:
                size += self.add(partition, list(some))
                continue
            for message in some:
                of_message = message_size(message)
                self.reject(partition, not_deserialized(TooBigError(of_message, most), message))
                size += of_message
        return size

    def reject(self, partition: Partition, refusal: Refusal) -> None:
        """Keep a message that cannot become a row for the dead letter."""
        rejected = refusal.rejected
        if self._bad_records.keep(rejected, refusal.hint):
            partition.rejected.append(rejected)
            self._rows += 1
            self._bytes += deep_size(rejected.key) + deep_size(rejected.value) + deep_size(rejected.headers)
        if self.observer is not None:
            self.observer.record_rejected(rejected)

    def drop(self) -> None:
        """Forget the generation that has ended: what waits, and what is under way."""
        self._rows = self._bytes = 0
        self._sealed.clear()

    # --- batches ----------------------------------------------------------------------------------------------------

    def turn(self) -> None:
        """Seal if it is worth it; called after each turn of the loop.

        Raises:
            ConnectorError: the pipeline failed with an error that no retry corrects.
        """
        if self.observer is not None:
            self.observer.turn(is_in_trouble=self.is_in_trouble)
        self.raise_failure()
        now = self._clock()
        if now >= self._due_at:
            self._due_at = now + self._commit_interval
            is_gathering = self._portions.gathered_records + self._rows > 0
            self._is_due = is_gathering or any(each.is_ahead for each in self.partitions.claimed)
        reason = self._portions.reason_to_end(self._rows, is_checkpoint_due=self._is_due)
        if reason or self.limits.is_portion(self._bytes):
            self._seal(reason)

    def raise_failure(self) -> None:
        """Raise the error with which the pipeline failed, if it did."""
        if self._pipeline.failure is not None:
            raise self._pipeline.failure

    def wait_for_room(self, seconds: float) -> None:
        """Wait so long for the pipeline, because the buffer is full."""
        self._pipeline.wait_for_change(seconds)
        if self.observer is not None:
            self.observer.waited()

    def flush(self, seconds: float, *, look_seconds: float) -> None:
        """Seal the rest, and wait so long for all that is sealed. The rest of it is read again by the next owner."""
        self._seal(self.limits.at_flush(self.held_bytes))
        until = self._clock() + seconds
        while not self._pipeline.wait_delivered(self._portions.last, look_seconds):
            if self._pipeline.failure is not None or self._clock() >= until:
                break
        if self.observer is not None:
            self.observer.flushed()

    def note_delivered(self) -> None:
        """Note in the partitions how far they are in the lake and in the log."""
        while self._sealed and self._is_delivered(self._sealed[0][0]):
            _, ends = self._sealed.popleft()
            for tp, end in ends.items():
                self.partitions.by_tp[tp].delivered(end)

    # --- inside -----------------------------------------------------------------------------------------------------

    def _is_delivered(self, number: int) -> bool:
        """Whether this portion is in the lake; messages of a fenced generation were dropped."""
        return self._pipeline.wait_delivered(number, 0.0) and not self.partitions.is_fenced

    def _seal(self, reason: str | None) -> None:
        """Hand what waits to the pipeline; with a reason, it ends the batch."""
        portion = self._portion(reason)
        if portion:
            self._sealed.append((portion.number, portion.ends))
        if reason:
            self._is_due = False
        self._portions.submit(portion, reason)

    def _portion(self, reason: str | None) -> Batch | None:
        """What waits, with how far the partitions were read; that alone is worth a portion only if it ends a batch."""
        news = [each for each in self.partitions.claimed if each.waiting or each.is_ahead]
        sealed = [each.seal() for each in news if each.waiting]
        if not (sealed or (news and reason)):
            return None
        parts = tuple(part for part, _, _ in sealed)
        messages = tuple(of_part for _, of_part, _ in sealed)
        rejected = tuple(chain.from_iterable(of_part for _, _, of_part in sealed))
        ends = {each.tp: each.seal_end() for each in news}
        size, self._rows, self._bytes = self._bytes, 0, 0
        return Batch(
            self._portions.last + 1,
            reason,
            parts,
            rows=tuple(list[Row]() for _ in parts),
            size=size,
            rejected=rejected,
            messages=messages,
            owner=news[0].token,
            ends=ends,
        )
