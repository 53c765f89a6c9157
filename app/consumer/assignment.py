"""One life of a topic-partition at this member: from its assignment to its revocation."""

import secrets
from collections.abc import Sequence
from itertools import count

from app.model import BatchPart, Message, OffsetRange, Rejected, Row, TopicPartition

# Of 64 bits, two are equal among a million processes with a probability of 1 in 37 million; of 32 bits for each
# assignment, two would probably be among 80,000. Within a process they are counted, and differ for certain.
_PROCESS = secrets.token_hex(8)
_NUMBERS = count()


def new_token() -> str:
    """Names an assignment, once for ever: 24 hex digits, that begin alike in one process."""
    return f"{_PROCESS}{next(_NUMBERS):08x}"


class Assignment:
    """The rows and the rejected records of a topic-partition that wait to be sealed, and where it stands.

    Each assignment is a new object with a new token, so that nothing of a former life (rows, offsets, a flush that is
    still running) can touch a later one.
    """

    __slots__ = (
        "_next_number",
        "_replayed_from",
        "_sealed_to",
        "messages",
        "rejected",
        "replayed_to",
        "rows",
        "token",
        "tp",
    )

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self.token = new_token()
        self.rows: list[Row] = []
        self.messages: list[Message] = []  # that are still to become rows, by rising offsets
        self.rejected: list[Rejected] = []
        # After back-pressure, or where state is made good, rows up to this offset come again though they are in a batch
        # already. At any other time a lower offset is no repetition: a buffered join gives out records late, a topic
        # may be made anew.
        self.replayed_to = self._replayed_from = -1
        self._sealed_to = -1
        self._next_number = 0

    @property
    def waiting(self) -> int:
        """Records that wait to be sealed, rejected ones among them."""
        return len(self.rows) + len(self.messages) + len(self.rejected)

    def seal(self) -> tuple[BatchPart, list[Row], list[Message], list[Rejected]]:
        """Take out what waits; there is at least one record."""
        rows, self.rows = self.rows, []
        messages, self.messages = self.messages, []
        rejected, self.rejected = self.rejected, []
        offsets = [row.offset for row in rows] + [record.offset for record in rejected]
        offsets += [message.offset() for message in messages[:1] + messages[-1:]]
        part = BatchPart(OffsetRange(self.tp, min(offsets), max(offsets)), self.token, self._next_number)
        self._sealed_to = max(self._sealed_to, part.offsets.last)
        self._next_number += 1
        return part, rows, messages, rejected

    def replay(self, first: int, last: int) -> None:
        """What comes between these offsets is in a batch of a former life; what is given out late may be in none."""
        self._replayed_from = first
        self.replayed_to = self._sealed_to = last

    def rewind(self) -> None:
        """The consumer goes back to its last commit: drop what waits, and skip what is sealed when it comes."""
        self.rows = []
        self.messages = []
        self.rejected = []
        self.replayed_to = self._sealed_to

    def is_repeated(self, offset: int) -> bool:
        """Whether a row with this offset is in a batch already."""
        if offset <= self.replayed_to:
            return offset >= self._replayed_from
        self.replayed_to = self._replayed_from = -1
        return False

    def add_messages(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Take messages by rising offsets, but for those in a batch already; returns what was taken."""
        if messages[0].offset() <= self.replayed_to:
            messages = [message for message in messages if message.offset() > self.replayed_to]
        if messages:
            self.replayed_to = -1
            self.messages += messages
        return messages

    def discard(self, offset: int) -> None:
        """Drop the waiting rows of a record that must not be written."""
        self.rows = [row for row in self.rows if row.offset != offset]
