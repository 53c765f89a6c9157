"""What ``transform()`` has made of messages, of all partitions, until it is in the lake."""

from contextlib import suppress
from dataclasses import replace

from app.bad_records.refusals import too_deep
from app.consumer.framework.messages import CurrentMessage
from app.consumer.framework.waiting import Waiting
from app.consumer.own_copy import own_copy
from app.consumer.row_size import MESSAGE_OVERHEAD, RowSizer
from app.delivery.assignment import Assignment
from app.model import Rejected, Row, TopicPartition


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
