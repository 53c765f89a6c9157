"""Takes messages from Kafka's client in the plain lane. The buffer must have space, and large messages are refused."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import methodcaller
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition

from app.bad_records.refusals import BadRecords, Refusal, TooBigError, headers_size, not_deserialized
from app.consumer.commits import log_starts, mark_set_offsets
from app.consumer.plain.transformer import Transformer
from app.consumer.rows import MESSAGE_OVERHEAD
from app.consumer.sink_observer import NOBODY, SinkObserver
from app.delivery.assignment import Assignment, Partition, Piece
from app.delivery.members import Members
from app.errors import RetryableError
from app.model import Message, TopicPartition, headers_of_all

logger = logging.getLogger(__name__)

TURN_SECONDS = 1.0  # maximum time of transform() in a turn, because Kafka's client reports a rebalance only in a poll

_PATIENCE_SECONDS = 5.0  # before the client is paused, because a pause drops the messages that the client fetched ahead
_FIRST_MESSAGES = 100
_POLL_MESSAGES = 10_000
_POLL_BYTES = 16 * 2**20
_HEADER_OVERHEAD = 200  # bytes of a name and a value as Python objects
_COPIES = 2  # copies of a value: in the message, and in columns

_key = methodcaller("key")


class Reading:
    """Makes Kafka's client read the claimed partitions while the buffer has space. For the consumer's thread.

    ``is_paused``: no record is read, because the buffer stays full. ``consumed`` is the number of consumed messages.
    """

    def __init__(self, client: Consumer, members: Members, observer: SinkObserver) -> None:
        self._client = client
        self._members = members
        self._observer = observer
        self._metrics = members.runtime.metrics
        self._timings = members.runtime.timings
        self._partitions: list[Partition] = []
        self._size = _POLL_BYTES // _FIRST_MESSAGES  # average size of a message in memory, in bytes
        self._in_time = _POLL_MESSAGES  # number of messages that are taken in a turn
        self._full_since: float | None = None
        self._paused = frozenset[TopicPartition]()
        self.is_paused = False
        self.consumed = 0

    def begin_claimed(self) -> None:
        """Read newly claimed partitions from the log's end. Partitions without a claim are not read."""
        new = self._members.new_claims()
        claims = sorted((claim for _, claim in new), key=lambda claim: claim.tp)
        log_starts(claims, self._metrics)
        mark_set_offsets(claims, self._client.commit)
        for assignment, claim in new:
            assignment.partitions[claim.tp].begin(claim.start.offset)
            self._metrics.begins(claim.tp, claim.start.offset)
        if claims:
            logger.info("claimed: %s", ", ".join(f"{claim.tp} from {claim.start.offset}" for claim in claims))
        claimed = [partition for assignment in self._members.assignments for partition in assignment.claimed]
        if claimed == self._partitions:
            return
        self._observer.unassigned([partition.tp for partition in {*self._partitions} - {*claimed}])
        self._observer.assigned([partition.tp for partition in {*claimed} - {*self._partitions}])
        self._partitions, self._paused = claimed, frozenset()
        self._client.assign([KafkaTopicPartition(*partition.tp, partition.taken) for partition in claimed])
        # After a new assignment, librdkafka still pauses partitions, even if another member has read them before.
        self._client.resume([KafkaTopicPartition(*partition.tp) for partition in claimed])

    def end(self) -> None:
        """Note that all partitions are revoked."""
        self._observer.unassigned([partition.tp for partition in self._partitions])
        self._partitions, self._paused = [], frozenset()
        self._full_since, self.is_paused = None, False

    def seek(self, tp: TopicPartition, offset: int) -> None:
        try:
            self._client.seek(KafkaTopicPartition(*tp, offset))
        except KafkaException as error:
            doing = f"continuing {tp} at offset {offset}"
            raise RetryableError(doing, str(error), "The next start continues from the journal") from error

    # --- room -------------------------------------------------------------------------------------------------------

    @property
    def most_messages(self) -> int:
        """Number of messages to poll. Large messages and a slow ``transform()`` lower this number."""
        buffer = self._members.buffer
        room = buffer.room // (2 if buffer.is_shared else 1)
        return max(1, min(_POLL_MESSAGES, self._in_time, min(_POLL_BYTES, room) // self._size))

    def count_taken(self, messages: int, size: int, seconds: float) -> None:
        """Count messages that were taken. Note their bytes in memory, and the seconds that were needed."""
        if messages:
            # Topics have messages of different sizes. After small messages, a poll could return many large messages.
            least = self._size * 15 // 16 if self.consumed else 1
            self._size = max(size // messages, least)
            self._in_time = int(TURN_SECONDS * messages / max(seconds, 1e-6))
        self.consumed += messages

    def may_poll(self) -> bool:
        """Whether to poll. Waits a moment for space. If the buffer stays full, the client is paused, and polled.

        If a table uses half of the buffer, its partitions are paused, and the other half is free for other tables.
        Otherwise one table whose records cannot be written would stop all tables.
        """
        members, buffer, clock = self._members, self._members.buffer, self._timings.clock
        is_full = buffer.is_full and bool(members.assignments)
        self._full_since = (self._full_since or clock()) if is_full else None
        is_paused = self._full_since is not None and clock() - self._full_since >= _PATIENCE_SECONDS
        if is_paused and not self.is_paused:
            self._metrics.paused()
            logger.warning("the buffer is full: consuming pauses until there is space")
        elif self.is_paused and not is_paused:
            logger.info("the buffer has space again: consuming continues")
        self.is_paused = is_paused
        held = (member.assignment for member in members.all if is_paused or buffer.is_crowded_by(member.flow.share))
        self._pause(frozenset(partition.tp for assignment in held if assignment for partition in assignment.claimed))
        if is_full and not is_paused:
            buffer.wait(self._timings.look_seconds)
            self._observer.waited()
            return False
        return True

    def _pause(self, paused: frozenset[TopicPartition]) -> None:
        """Pause these partitions, and resume all other partitions."""
        for act, tps in ((self._client.pause, paused - self._paused), (self._client.resume, self._paused - paused)):
            if tps:
                act([KafkaTopicPartition(*tp) for tp in tps])
        self._paused = paused


class Taken(NamedTuple):
    """The number of messages that were taken, and an estimate of the bytes of these messages in memory."""

    messages: int
    size: int


@dataclass(frozen=True, slots=True)
class Intake:
    """Takes the messages of a poll. For the consumer's thread.

    ``max_record_bytes`` is the largest size of a message that becomes a row. ``size_of`` returns the size of a
    message's value in bytes. ``transformer`` runs an edited ``transform()``.
    """

    max_record_bytes: int
    bad_records: BadRecords
    size_of: Callable[[Message], int] = len
    observer: SinkObserver = NOBODY
    transformer: Transformer | None = None

    def take(
        self, assignment: Assignment, tp: TopicPartition, messages: Sequence[Message], *, room: int, until: float
    ) -> Taken:
        """Pass messages to the assignment in the order of offsets. ``transform()`` may take only the first."""
        if self.transformer is None:
            return Taken(len(messages), self._take(assignment, tp, messages, [*map(self.size_of, messages)]))
        done = self.transformer.run(messages, room=room, until=until)
        taken = messages[: done.messages]
        if taken:
            refusals = (refusal for refusal in done.refusals if self.bad_records.keep(refusal.rejected, refusal.hint))
            kept = [refusal.rejected for refusal in refusals]
            size = done.size + sum(rejected.nbytes for rejected in kept)
            assignment.take([Piece(tp, taken[-1].offset(), done.texts, done.rows, kept)], size)
            self.observer.messages_added(tp, done.heard)
        return Taken(len(taken), done.size + MESSAGE_OVERHEAD * len(taken) + sum(map(len, taken)))

    def _take(self, assignment: Assignment, tp: TopicPartition, messages: Sequence[Message], sizes: list[int]) -> int:
        """Take messages in pieces of up to ``max_record_bytes``. The dead letter keeps the start of larger messages."""
        headers = list(chain.from_iterable(filter(None, headers_of_all(messages))))
        values, keys = sum(sizes), sum(map(len, filter(None, map(_key, messages))))
        rest, most = keys + headers_size(headers), self.max_record_bytes
        if values + rest > most and (middle := len(messages) // 2):
            halves = (messages[:middle], sizes[:middle]), (messages[middle:], sizes[middle:])
            return sum(self._take(assignment, tp, *half) for half in halves)
        if values + rest > most:
            self.reject(assignment, not_deserialized(TooBigError(values + rest, most), messages[0]))
            return values + rest
        size = _COPIES * values + rest + MESSAGE_OVERHEAD * len(messages) + _HEADER_OVERHEAD * len(headers)
        assignment.take([Piece(tp, messages[-1].offset(), messages=messages)], size)
        self.observer.messages_added(tp, messages)
        return size

    def reject(self, assignment: Assignment, refusal: Refusal) -> None:
        rejected = refusal.rejected
        kept = [rejected] if self.bad_records.keep(rejected, refusal.hint) else []
        assignment.take([Piece(rejected.tp, rejected.offset, rejected=kept)], sum(record.nbytes for record in kept))
        self.observer.record_rejected(rejected)
