"""Keeps the rows and bad records of processed messages, for each partition, until these records are in the lake."""

from contextlib import suppress
from dataclasses import replace
from itertools import dropwhile

from app.bad_records.refusals import too_deep
from app.consumer.framework.current import CurrentMessage
from app.consumer.rows import MESSAGE_OVERHEAD, RowSizer, own_copy
from app.delivery.assignment import Assignment, Piece, Uncommitted
from app.model import Rejected, Row, TopicPartition


class Waiting:
    """The processed records of a partition since the last flush.

    To go back, quixstreams seeks the first deserialized message after the last flush. It does not return to earlier
    messages that could not be deserialized. Therefore the dead letters of these messages are kept until they are in the
    lake. quixstreams may go back to any offset, so this class keeps several positions.

    Attributes:
        rows: Rows in the order of ``transform()``. A lookup may return a row late, after rows with higher offsets.
        rejected: Bad records that the pipeline has not received, in the order of offsets.
        processed: Offset of the last processed message; -1 if unknown.
        first: Offset to which quixstreams goes back; ``None`` if no message was processed.
        uncommitted: Calculates the age of the first record that is not in the lake.
    """

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.rejected: list[Rejected] = []
        self.processed = self._sealed_to = self._replayed_to = -1
        self.first: int | None = None
        self.uncommitted = Uncommitted()
        self._begun = 0  # number of rows before the present record
        self._ended = 0  # number of rows of completely processed messages
        self._sealed: list[Rejected] = []  # bad records that the pipeline has received, and that may not be in the lake

    @property
    def has_news(self) -> bool:
        """Whether a record, or the offset of the last processed message, was not passed to the pipeline yet."""
        return self.has_records or self.processed > self._sealed_to

    @property
    def has_records(self) -> bool:
        """Whether some rows or bad records were not passed to the pipeline yet."""
        return bool(self.rows or self.rejected)

    # --- messages ---------------------------------------------------------------------------------------------------

    def is_repeated(self, offset: int) -> bool:
        """Whether the record with this offset is already in the lake. After the first new record: false."""
        if offset <= self._replayed_to:
            return True
        self._replayed_to = -1
        return False

    def begin_record(self) -> None:
        self._begun = len(self.rows)

    def take_out_record(self, offset: int) -> None:
        """Drop the rows of the record that is processed now. ``offset`` is the offset of this record."""
        self.rows[self._begun :] = [row for row in self.rows[self._begun :] if row.offset != offset]

    def drop(self, offset: int) -> None:
        self.rows = [row for row in self.rows if row.offset != offset]

    def receive(self, offset: int) -> bool:
        """Note that a message with this offset is received. Return whether the message is redelivered.

        For a redelivered message, quixstreams went back to its last commit without a flush, because another sink of
        ``transform()`` failed during a revocation or was too slow. All rows after this commit are redelivered.
        """
        if offset > self.processed:
            return False
        del self.rows[: self._ended]
        self._begun -= self._ended
        self._ended = 0
        self._sealed = [record for record in self._sealed if record.offset < offset]
        self.rejected = [record for record in self.rejected if record.offset < offset]
        self.processed = offset - 1
        self._sealed_to = -1
        self.first = None
        return True

    def end_message(self, offset: int, *, is_sought: bool) -> None:
        """Note that a message is processed. ``is_sought`` is true if quixstreams would go back to this message."""
        self.processed = offset
        if is_sought and self.first is None:
            self.first = offset
        self._begun = self._ended = len(self.rows)

    # --- to the lake ------------------------------------------------------------------------------------------------

    def begin_after(self, end: int) -> int:
        """Drop records up to this offset, because the lake contains them. Return the number of dropped rows."""
        before = len(self.rows)
        self.rows = list(dropwhile(lambda row: row.offset <= end, self.rows))
        self._sealed = [record for record in self._sealed if record.offset > end]
        self.rejected = [record for record in self.rejected if record.offset > end]
        self._replayed_to = -1 if self.has_records else end
        self._begun = self._ended = len(self.rows)
        return before - len(self.rows)

    def take_out(self, tp: TopicPartition) -> Piece:
        """Remove the waiting records, and return them for the pipeline. This object also keeps the bad records."""
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
        """Note that the pipeline's bad records are not in the lake, although quixstreams does not go back."""
        self.rejected, self._sealed, self._sealed_to = self._sealed + self.rejected, [], -1

    def rewound(self) -> "Waiting | None":
        """Return the bad records that quixstreams does not seek when it goes back; ``None`` without bad records."""
        both = self._sealed + self.rejected
        rejected = [record for record in both if self.first is None or record.offset < self.first]
        if not rejected:
            return None
        waiting = Waiting()
        waiting.rejected, waiting.processed = rejected, rejected[-1].offset
        return waiting


class Processed:
    """Rows and bad records of all partitions. One thread calls methods. Any thread may read the properties.

    ``row_bytes`` is the size of the rows that the pipeline has not received. ``kept_bytes`` is the size of the bad
    records that are not in the lake.
    """

    def __init__(self, current: CurrentMessage) -> None:
        self._current = current
        self._sizer = RowSizer()
        self.by_tp: dict[TopicPartition, Waiting] = {}
        self.row_bytes = 0
        self.kept_bytes = 0

    @property
    def nbytes(self) -> int:
        return self.row_bytes + self.kept_bytes

    @property
    def rows(self) -> int:
        return sum(len(waiting.rows) for waiting in self.by_tp.values())

    @property
    def news(self) -> frozenset[TopicPartition]:
        """The partitions with records, or with an offset, that the pipeline has not received."""
        return frozenset(tp for tp, waiting in self.by_tp.copy().items() if waiting.has_news)

    @property
    def oldest_uncommitted(self) -> dict[TopicPartition, float]:
        ages = ((tp, waiting.uncommitted.oldest) for tp, waiting in self.by_tp.copy().items())
        return {tp: oldest for tp, oldest in ages if oldest is not None}

    @property
    def ends(self) -> dict[TopicPartition, int]:
        """The offset of the last processed message of each partition, if known."""
        return {tp: waiting.processed for tp, waiting in self.by_tp.items() if waiting.processed >= 0}

    # --- messages ---------------------------------------------------------------------------------------------------

    def add(self, tp: TopicPartition, row: Row) -> None:
        """Keep a copy of a row, and the row's message if known. Raises ``NotARowError`` for too many levels."""
        try:
            value, key, headers = own_copy(row.value), own_copy(row.key), own_copy(row.headers)
        except RecursionError:
            raise too_deep() from None
        rows, offset = self.by_tp[tp].rows, row.offset
        message = self._current.of(*tp, offset)
        if message is not None:
            of_message = MESSAGE_OVERHEAD + len(message) + len(message.key() or b"")  # the row contains the headers
            if rows and rows[-1].offset == offset:  # the message became several rows
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
        self.by_tp[rejected.tp].rejected.append(rejected)
        self.kept_bytes += rejected.nbytes

    # --- to the lake ------------------------------------------------------------------------------------------------

    def hand_over(self, assignment: Assignment) -> None:
        """Pass all records that the pipeline has not received to the assignment, whose partitions are all claimed."""
        pieces = [self.by_tp[tp].take_out(tp) for tp in self.news if tp in assignment.partitions]
        if pieces:
            size, self.row_bytes = self.row_bytes, 0
            assignment.take(pieces, size)

    def delivered(self) -> None:
        for waiting in self.by_tp.values():
            waiting.delivered()
        self.kept_bytes = 0

    def unsealed(self) -> None:
        for waiting in self.by_tp.values():
            waiting.unsealed()

    def rewound(self) -> "Processed":
        processed = Processed(self._current)
        processed.by_tp = {tp: kept for tp, waiting in self.by_tp.items() if (kept := waiting.rewound())}
        processed.kept_bytes = sum(record.nbytes for kept in processed.by_tp.values() for record in kept.rejected)
        return processed
