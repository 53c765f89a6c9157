"""The records that wait of one partition, and how far it is processed. For the thread that holds it."""

from itertools import dropwhile

from app.delivery.assignment import Piece
from app.delivery.uncommitted import Uncommitted
from app.model import Rejected, Row, TopicPartition


class Waiting:
    """What was processed of a partition since the last flush.

    To go back, quixstreams seeks the first message since then that deserialized. It does not seek one that did not. So
    dead letters of earlier messages are kept until they are in the lake.

    Attributes:
        rows: in the order in which they came; a lookup may give one with an earlier offset late.
        rejected: the bad records that are not in the lake, by rising offsets.
        processed: the offset of the last message, -1 if none is known.
        first: the message to which quixstreams goes back; ``None`` without one.
        uncommitted: how old the first record is that is not in the lake.
    """

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.rejected: list[Rejected] = []
        self.processed = self._sealed_to = self._replayed_to = -1
        self.first: int | None = None
        self.uncommitted = Uncommitted()
        self._begun = 0  # rows that were there before the present record
        self._ended = 0  # rows of messages that are processed
        self._sealed_rejected = 0

    @property
    def has_news(self) -> bool:
        """Whether the pipeline lacks anything, if only how far the partition was processed."""
        return self.has_records or self.processed > self._sealed_to

    @property
    def has_records(self) -> bool:
        """Whether there are rows or bad records that the pipeline lacks."""
        return bool(self.rows) or len(self.rejected) > self._sealed_rejected

    # --- messages ---------------------------------------------------------------------------------------------------

    def is_repeated(self, offset: int) -> bool:
        """Whether the record with this offset is in the lake already; the first later record ends the repetition."""
        if offset <= self._replayed_to:
            return True
        self._replayed_to = -1
        return False

    def begin_record(self) -> None:
        self._begun = len(self.rows)

    def take_out_record(self, offset: int) -> None:
        """Drop the rows that the record with this offset gave, which is processed now."""
        self.rows[self._begun :] = [row for row in self.rows[self._begun :] if row.offset != offset]

    def drop(self, offset: int) -> None:
        self.rows = [row for row in self.rows if row.offset != offset]

    def comes(self, offset: int) -> bool:
        """Note that a message with this offset comes; returns whether it had come before.

        Then quixstreams reads again from its last commit, without a flush in between: another sink of ``transform()``
        has failed while partitions were revoked, or took too long. All rows of before come again.
        """
        if offset > self.processed:
            return False
        del self.rows[: self._ended]
        self._begun -= self._ended
        self._ended = 0
        self.rejected = [each for each in self.rejected if each.offset < offset]
        self._sealed_rejected = min(self._sealed_rejected, len(self.rejected))
        self.processed = offset - 1
        self._sealed_to = -1
        self.first = None
        return True

    def end_message(self, offset: int, *, is_sought: bool) -> None:
        """Note that a message is processed; ``is_sought``: whether quixstreams would go back to it."""
        self.processed = offset
        if is_sought and self.first is None:
            self.first = offset
        self._begun = self._ended = len(self.rows)

    # --- to the lake ------------------------------------------------------------------------------------------------

    def begin_after(self, end: int) -> int:
        """Drop what is in the lake already: all up to this offset; returns the number of dropped rows."""
        before = len(self.rows)
        self.rows = list(dropwhile(lambda row: row.offset <= end, self.rows))
        self.rejected = [each for each in self.rejected if each.offset > end]
        self._replayed_to = -1 if self.has_records else end
        self._begun = self._ended = len(self.rows)
        return before - len(self.rows)

    def take_out(self, tp: TopicPartition) -> Piece:
        """Take out the records that wait, for the pipeline; bad ones are kept here too."""
        rows, self.rows = self.rows, []
        rejected, self._sealed_rejected = self.rejected[self._sealed_rejected :], len(self.rejected)
        self._begun = self._ended = 0
        self._sealed_to = self.processed
        return Piece(tp, self.processed, rows=rows, rejected=rejected)

    def delivered(self) -> None:
        self.rejected = []
        self._sealed_rejected = 0
        self.first = None
        self.uncommitted.committed(self.processed + 1, is_all=True)

    def unsealed(self) -> None:
        """Note that what the pipeline has did not reach the lake, and quixstreams does not go back."""
        self._sealed_rejected, self._sealed_to = 0, -1

    def rewound(self) -> "Waiting | None":
        """What is left where quixstreams goes back: bad records that it does not seek. ``None`` without any."""
        rejected = [each for each in self.rejected if self.first is None or each.offset < self.first]
        if not rejected:
            return None
        left = Waiting()
        left.rejected, left.processed = rejected, rejected[-1].offset
        return left
