"""One life of a topic-partition at this member: from its assignment to its revocation."""

import secrets
from collections.abc import Callable

from app.model import BatchPart, OffsetRange, Row, TopicPartition


class Assignment:
    """The rows of a topic-partition that wait to be sealed, and where it stands.

    Each assignment is a new object with a new token, so that nothing of a former life (rows, offsets, a flush that is
    still running) can touch a later one.
    """

    __slots__ = ("_next_number", "rows", "sealed_to", "token", "tp")

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self.token = secrets.token_hex(4)
        self.rows: list[Row] = []
        # Rows up to this offset are in a batch already: after back-pressure they are read again and must be skipped.
        self.sealed_to = -1
        self._next_number = 0

    def seal(self) -> tuple[BatchPart, list[Row]]:
        """Take out the waiting rows; there is at least one."""
        rows, self.rows = self.rows, []
        part = BatchPart(OffsetRange(self.tp, rows[0].offset, rows[-1].offset), self.token, self._next_number)
        self.sealed_to = rows[-1].offset
        self._next_number += 1
        return part, rows

    def discard(self, unwanted: Callable[[Row], bool]) -> None:
        """Drop waiting rows that must not be written."""
        self.rows = [row for row in self.rows if not unwanted(row)]
