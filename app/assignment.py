"""One life of a topic-partition at this member: from its assignment to its revocation."""

import secrets
from collections.abc import Callable

from app.model import BatchPart, OffsetRange, Row, TopicPartition


class Assignment:
    """The rows of a topic-partition that wait to be sealed, and where it stands.

    Each assignment is a new object with a new token, so that nothing of a former life (rows, offsets, a flush that is
    still running) can touch a later one.
    """

    __slots__ = ("_next_number", "_sealed_to", "replayed_to", "rows", "token", "tp")

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self.token = secrets.token_hex(4)
        self.rows: list[Row] = []
        # After back-pressure, rows up to this offset come again though they are in a batch already. At any other time a
        # lower offset is no repetition: a buffered join gives out records late, a topic may be made anew.
        self.replayed_to = -1
        self._sealed_to = -1
        self._next_number = 0

    def seal(self) -> tuple[BatchPart, list[Row]]:
        """Take out the waiting rows; there is at least one."""
        rows, self.rows = self.rows, []
        offsets = [row.offset for row in rows]
        part = BatchPart(OffsetRange(self.tp, min(offsets), max(offsets)), self.token, self._next_number)
        self._sealed_to = max(self._sealed_to, part.offsets.last)
        self._next_number += 1
        return part, rows

    def rewind(self) -> None:
        """The consumer goes back to its last commit: drop the waiting rows, and skip the sealed ones when they come."""
        self.rows = []
        self.replayed_to = self._sealed_to

    def is_repeated(self, offset: int) -> bool:
        """Whether a row with this offset is in a batch already."""
        if offset <= self.replayed_to:
            return True
        self.replayed_to = -1
        return False

    def discard(self, unwanted: Callable[[Row], bool]) -> None:
        """Drop waiting rows that must not be written."""
        self.rows = [row for row in self.rows if not unwanted(row)]
