"""What the plain lane takes of the messages that a poll gave: no message that is too big."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import methodcaller
from typing import NamedTuple

from app.bad_records.refusals import BadRecords, Refusal, TooBigError, headers_size, not_deserialized
from app.consumer.plain.transformer import Transformer
from app.consumer.rows import MESSAGE_OVERHEAD
from app.consumer.sink_observer import NOBODY, SinkObserver
from app.delivery.assignment import Assignment, Piece
from app.model import Message, TopicPartition, headers_of_all

_HEADER_OVERHEAD = 200  # of a name and a value as objects of Python
_COPIES = 2  # of the value: as it came, and as columns

_key = methodcaller("key")


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
