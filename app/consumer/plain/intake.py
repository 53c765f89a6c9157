"""What the plain lane takes of Kafka's client: as much as there is room for, and no message that is too big."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import methodcaller
from typing import NamedTuple

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaTopicPartition

from app.bad_records.refusals import BadRecords, Refusal, TooBigError, headers_size, not_deserialized
from app.consumer.plain.transformer import Transformer
from app.consumer.rows import MESSAGE_OVERHEAD
from app.consumer.sink_observer import NOBODY, SinkObserver
from app.delivery.assignment import Assignment, Piece
from app.delivery.members import Members
from app.model import Message, TopicPartition, headers_of_all

logger = logging.getLogger(__name__)

TURN_SECONDS = 1.0  # of the functions of transform(): between two polls Kafka's client learns of no rebalance

_PATIENCE_SECONDS = 5.0  # before the client is paused, which drops what it fetched ahead
_FIRST_MESSAGES = 100
_POLL_MESSAGES = 10_000
_POLL_BYTES = 16 * 2**20
_HEADER_OVERHEAD = 200  # of a name and a value as objects of Python
_COPIES = 2  # of the value: as it came, and as columns

_key = methodcaller("key")


class Backpressure:
    """Waits for room in the buffer, and pauses Kafka's client where that takes long. For the consumer's thread.

    ``consumed`` counts messages.
    """

    def __init__(self, client: Consumer, members: Members) -> None:
        self._client = client
        self._members = members
        self._buffer = members.buffer
        self._metrics = members.runtime.metrics
        self._timings = members.runtime.timings
        self._size = _POLL_BYTES // _FIRST_MESSAGES  # of a message in memory on average, in bytes
        self._in_time = _POLL_MESSAGES  # messages that are taken in a turn
        self._full_since: float | None = None
        self._held_back = frozenset[TopicPartition]()
        self.is_paused = False
        self.consumed = 0

    def unassigned(self) -> None:
        self._full_since, self.is_paused, self._held_back = None, False, frozenset()

    @property
    def most_messages(self) -> int:
        """How many to poll; fewer where they are large, or ``transform()`` is slow."""
        room = self._buffer.room // (2 if self._members.has_others else 1)
        return max(1, min(_POLL_MESSAGES, self._in_time, min(_POLL_BYTES, room) // self._size))

    def took(self, messages: int, size: int, seconds: float) -> None:
        """Count messages; note their bytes in memory, and how long it took to take them."""
        if messages:
            # Topics have messages of different sizes: after small ones, a poll could bring many large ones.
            least = self._size * 15 // 16 if self._members.has_others and self.consumed else 1
            self._size = max(size // messages, least)
            self._in_time = int(TURN_SECONDS * messages / max(seconds, 1e-6))
        self.consumed += messages

    def may_poll(self) -> bool:
        """Whether to poll. Waits a moment for room; if there is none for long, the client is paused and polled."""
        if not self._buffer.is_full:
            self._full_since = None
            self._pause(wanted=False)
            return True
        clock = self._timings.clock
        self._full_since = self._full_since or clock()
        if clock() - self._full_since < _PATIENCE_SECONDS:
            self._buffer.wait(self._timings.look_seconds)
            return False
        self._pause(wanted=True)
        return True

    def hold_back(self) -> None:
        """Pause the partitions of a table with half of the buffer, and leave the rest to the other tables.

        Else one whose records cannot be written would stop them all.
        """
        greedy = frozenset(each.tp for each in self._members.greedy)
        if greedy != self._held_back:
            for act, tps in ((self._client.pause, greedy), (self._client.resume, self._held_back - greedy)):
                act([KafkaTopicPartition(*tp) for tp in tps])
            self._held_back = greedy

    def begin(self) -> None:
        """Read the claimed partitions, each from where it is."""
        claimed = self._members.claimed
        self._client.assign([KafkaTopicPartition(*each.tp, each.taken) for each in claimed])
        # librdkafka keeps a pause over assignments, also of a partition that another member had in between.
        again = self._client.pause if self.is_paused else self._client.resume
        again([KafkaTopicPartition(*each.tp) for each in claimed])
        self._held_back = frozenset()

    def _pause(self, *, wanted: bool) -> None:
        if wanted == self.is_paused:
            return
        tps = [KafkaTopicPartition(*each.tp) for each in self._members.claimed]
        if wanted:
            self._client.pause(tps)
            self._metrics.paused()
            logger.warning("the buffer is full: consuming pauses until there is room")
        else:
            self._client.resume(tps)
            self._held_back = frozenset()
            logger.info("there is room in the buffer again: consuming continues")
        self.is_paused = wanted


class Taken(NamedTuple):
    """How many messages were taken, and about their bytes in memory."""

    messages: int
    size: int


@dataclass(frozen=True, slots=True)
class Intake:
    """Takes the messages that a poll gave. For the consumer's thread.

    ``max_record_bytes`` bounds a message that becomes a row, ``size_of`` returns the size of its value as it is read.
    ``transformer`` runs an edited ``transform()``.
    """

    max_record_bytes: int
    bad_records: BadRecords
    size_of: Callable[[Message], int] = len
    observer: SinkObserver = NOBODY
    transformer: Transformer | None = None

    def take(
        self, assignment: Assignment, tp: TopicPartition, messages: Sequence[Message], *, room: int, until: float
    ) -> Taken:
        """Hand messages by rising offsets to the assignment; through ``transform()`` only as ``Transformer.run``."""
        if self.transformer is None:
            return Taken(len(messages), self._take(assignment, tp, messages, [*map(self.size_of, messages)]))
        done = self.transformer.run(messages, room=room, until=until)
        taken = messages[: done.messages]
        if taken:
            kept = [each.rejected for each in done.refusals if self.bad_records.keep(each.rejected, each.hint)]
            size = done.size + sum(each.nbytes for each in kept)
            assignment.take([Piece(tp, taken[-1].offset(), done.texts, done.rows, kept)], size)
            self.observer.messages_added(tp, done.heard)
        return Taken(len(taken), done.size + MESSAGE_OVERHEAD * len(taken) + sum(map(len, taken)))

    def _take(self, assignment: Assignment, tp: TopicPartition, messages: Sequence[Message], sizes: list[int]) -> int:
        """Take messages, as much at once as one may have; the dead letter keeps the beginning of a larger one."""
        headers = list(chain.from_iterable(filter(None, headers_of_all(messages))))
        values, keys = sum(sizes), sum(map(len, filter(None, map(_key, messages))))
        beside, most = keys + headers_size(headers), self.max_record_bytes
        if values + beside > most and (middle := len(messages) // 2):
            halves = (messages[:middle], sizes[:middle]), (messages[middle:], sizes[middle:])
            return sum(self._take(assignment, tp, *half) for half in halves)
        if values + beside > most:
            self.reject(assignment, not_deserialized(TooBigError(values + beside, most), messages[0]))
            return values + beside
        size = _COPIES * values + beside + MESSAGE_OVERHEAD * len(messages) + _HEADER_OVERHEAD * len(headers)
        assignment.take([Piece(tp, messages[-1].offset(), messages=messages)], size)
        self.observer.messages_added(tp, messages)
        return size

    def reject(self, assignment: Assignment, refusal: Refusal) -> None:
        rejected = refusal.rejected
        kept = [rejected] if self.bad_records.keep(rejected, refusal.hint) else []
        size = sum(each.nbytes for each in kept)
        assignment.take([Piece(rejected.tp, rejected.offset, rejected=kept)], size)
        self.observer.record_rejected(rejected)
