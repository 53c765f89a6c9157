"""What ``transform()`` has made of messages, until it is in the lake: of each partition, and of all."""

from contextlib import suppress
from dataclasses import replace
from itertools import dropwhile

from app.bad_records.refusals import too_deep
from app.consumer.framework.current import CurrentMessage
from app.consumer.rows import MESSAGE_OVERHEAD, RowSizer, own_copy
from app.delivery.assignment import Assignment, Piece, Uncommitted
from app.model import Rejected, Row, TopicPartition


class Waiting:
    """What was processed of a partition since the last flush.

    To go back, quixstreams seeks the first message since then that deserialized. It does not seek one that did not. So
    dead letters of earlier messages are kept until they are in the lake. It goes back by offsets, at any message: so
    there are positions here, and no single state.

    Attributes:
        rows: in the order in which they came; a lookup may give one with an earlier offset late.
        rejected: the bad records that the pipeline lacks, by rising offsets.
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
        self._sealed: list[Rejected] = []  # earlier bad records, which the pipeline has and the lake may lack

    @property
    def has_news(self) -> bool:
        """Whether the pipeline lacks anything, if only how far the partition was processed."""
        return self.has_records or self.processed > self._sealed_to

    @property
    def has_records(self) -> bool:
        """Whether there are rows or bad records that the pipeline lacks."""
        return bool(self.rows or self.rejected)

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
        self._sealed = [each for each in self._sealed if each.offset < offset]
        self.rejected = [each for each in self.rejected if each.offset < offset]
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
        self._sealed = [each for each in self._sealed if each.offset > end]
        self.rejected = [each for each in self.rejected if each.offset > end]
        self._replayed_to = -1 if self.has_records else end
        self._begun = self._ended = len(self.rows)
        return before - len(self.rows)

    def take_out(self, tp: TopicPartition) -> Piece:
        """Take out the records that wait, for the pipeline; bad ones are kept here too."""
        rows, self.rows = self.rows, []
        rejected, self.rejected = self.rejected, []
        self._sealed += rejected
        self._begun = self._ended = 0
        self._sealed_to = self.processed
        return Piece(tp, self.processed, rows=rows, rejected=rejected)

    def delivered(self) -> None:
        self.rejected, self._sealed = [], []
        self.first = None
        self.uncommitted.committed(self.processed + 1, is_all=True)

    def unsealed(self) -> None:
        """Note that what the pipeline has did not reach the lake, and quixstreams does not go back."""
        self.rejected, self._sealed, self._sealed_to = self._sealed + self.rejected, [], -1

    def rewound(self) -> "Waiting | None":
        """What is left where quixstreams goes back: bad records that it does not seek. ``None`` without any."""
        both = self._sealed + self.rejected
        rejected = [each for each in both if self.first is None or each.offset < self.first]
        if not rejected:
            return None
        left = Waiting()
        left.rejected, left.processed = rejected, rejected[-1].offset
        return left


class Processed:
    """Rows and bad records, for the thread that holds it; its properties are safe from any thread.

    ``row_bytes`` are of rows that the pipeline has not, ``kept_bytes`` of bad records until they are in the lake.
    """

    def __init__(self, current: CurrentMessage) -> None:
        self._current = current
        self._sizer = RowSizer()
        self.of: dict[TopicPartition, Waiting] = {}
        self.row_bytes = 0
        self.kept_bytes = 0

    @property
    def nbytes(self) -> int:
        return self.row_bytes + self.kept_bytes

    @property
    def rows(self) -> int:
        return sum(len(each.rows) for each in self.of.values())

    @property
    def news(self) -> frozenset[TopicPartition]:
        """The partitions of which the pipeline lacks something, if only how far they were processed."""
        return frozenset(tp for tp, each in self.of.copy().items() if each.has_news)

    @property
    def oldest_uncommitted(self) -> dict[TopicPartition, float]:
        known = ((tp, each.uncommitted.oldest) for tp, each in self.of.copy().items())
        return {tp: oldest for tp, oldest in known if oldest is not None}

    @property
    def ends(self) -> dict[TopicPartition, int]:
        """The offset of the last message of each partition, where one is known."""
        return {tp: each.processed for tp, each in self.of.items() if each.processed >= 0}

    # --- messages ---------------------------------------------------------------------------------------------------

    def add(self, tp: TopicPartition, row: Row) -> None:
        """Keep a copy of a row, with its message if that is known; raises ``NotARowError`` if it is too deep."""
        try:
            value, key, headers = own_copy(row.value), own_copy(row.key), own_copy(row.headers)
        except RecursionError:
            raise too_deep() from None
        rows, offset = self.of[tp].rows, row.offset
        message = self._current.of(*tp, offset)
        if message is not None:
            of_message = MESSAGE_OVERHEAD + len(message) + len(message.key() or b"")  # its headers are the row's too
            if rows and rows[-1].offset == offset:  # it became several rows
                self.row_bytes -= of_message if rows[-1].message is not None else 0
                rows[-1] = rows[-1]._replace(message=None)
                message = None
            else:
                self.row_bytes += of_message
        rows.append(Row(value, key, row.timestamp, offset, headers, message))
        self.row_bytes += self._sizer.size((value, key, headers), self._current.size)

    def keep(self, rejected: Rejected) -> None:
        with suppress(RecursionError):
            key, value, headers = map(own_copy, (rejected.key, rejected.value, rejected.headers))
            rejected = replace(rejected, key=key, value=value, headers=headers)
        self.of[rejected.tp].rejected.append(rejected)
        self.kept_bytes += rejected.nbytes

    # --- to the lake ------------------------------------------------------------------------------------------------

    def hand_over(self, assignment: Assignment) -> None:
        """Give what the pipeline lacks to the assignment, all of whose partitions are claimed."""
        pieces = [self.of[tp].take_out(tp) for tp in self.news if tp in assignment.partitions]
        if pieces:
            size, self.row_bytes = self.row_bytes, 0
            assignment.take(pieces, size)

    def delivered(self) -> None:
        for each in self.of.values():
            each.delivered()
        self.kept_bytes = 0

    def unsealed(self) -> None:
        for each in self.of.values():
            each.unsealed()

    def rewound(self) -> "Processed":
        left = Processed(self._current)
        left.of = {tp: kept for tp, each in self.of.items() if (kept := each.rewound())}
        left.kept_bytes = sum(rejected.nbytes for each in left.of.values() for rejected in each.rejected)
        return left
