"""Holds the records of all assigned topic-partitions until they are sealed. For the consumer's thread."""

from itertools import chain
from typing import Any

from quixstreams.context import message_context
from quixstreams.models import HeadersTuples

from app.bad_records.policy import BadRecords
from app.bad_records.refusals import TooBigError, no_object
from app.consumer.assignment import Assignments
from app.model import Batch, Message, Rejected, Row, TopicPartition, deep_size

_MESSAGE_OVERHEAD = 300  # of a message and its value as objects of Python
_MEASURED_EVERY = 64  # row
_ROW_OVERHEAD = 200  # the row's tuple, its timestamp and offset, its place in the list
_MEASURED_FIRST = 32
_SMOOTHING = 0.2


class Buffer:
    """Keeps records by assignment and counts them.

    Args:
        assignments: the current ones.
        max_record_bytes: the largest message that becomes a row.
        bad_records: the policy for records that cannot become rows.

    Attributes:
        rows: how many records wait, rejected ones among them.
        bytes: their estimated size in Python.
    """

    def __init__(self, assignments: Assignments, max_record_bytes: int, bad_records: BadRecords) -> None:
        self._max_record_bytes = max_record_bytes
        self._bad_records = bad_records
        self._assignments = assignments.by_tp
        self._sizer = RowSizer()
        self._rows_of_record = 0
        self._message: Message | None = None
        self.rows = 0
        self.bytes = 0

    def rewind(self) -> None:
        """Drop the rows that are not sealed: the consumer reads them again from its last commit."""
        for assignment in self._assignments.values():
            assignment.rewind()
        self.rows = self.bytes = 0

    def add(
        self,
        value: Any,
        key: Any,
        timestamp: int,
        headers: HeadersTuples,
        topic: str,
        partition: int,
        offset: int,
    ) -> None:
        """Take one record; see ``LakeSink.add``."""
        assignment = self._assignments[topic, partition]  # type: ignore[index] # a TopicPartition is such a tuple
        if assignment.is_repeated(offset):
            return
        if not isinstance(value, dict):
            raise no_object(value)
        size = message_context().size
        if size > self._max_record_bytes:
            raise TooBigError(size, self._max_record_bytes)
        message = self._message_of(assignment.rows, topic, partition, offset)
        assignment.rows.append(Row(value, key, timestamp, offset, headers, message))
        self._rows_of_record += 1
        self.rows += 1
        self.bytes += self._sizer.size((value, key, headers), size)
        if message is not None:
            self.bytes += _MESSAGE_OVERHEAD + size + len(message.key() or b"")

    def _message_of(self, before: list[Row], topic: str, partition: int, offset: int) -> Message | None:
        """The message that became this one row: if the row is refused, the message can be sent again."""
        if before and before[-1].offset == offset:  # it became several rows
            before[-1] = before[-1]._replace(message=None)
            return None
        message = self._message
        if message is None or message.offset() != offset:  # a window or a join emits the row later
            return None
        return message if (message.topic(), message.partition()) == (topic, partition) else None

    def begin_record(self, message: Message | None = None) -> None:
        """Note that the processing of a record begins; see ``LakeSink.begin_record``."""
        self._rows_of_record = 0
        self._message = message

    def reject(self, rejected: Rejected, hint: str) -> None:
        """Keep a record that cannot become a row for the dead letter; take out the rows that it already gave.

        Raises:
            DataError: ``ON_BAD_RECORD`` is ``fail``.
        """
        assignment = self._assignments[rejected.tp]
        if assignment.is_repeated(rejected.offset):
            return
        if self._rows_of_record and not self._bad_records.ends_the_process:
            del assignment.rows[-self._rows_of_record :]
            self._rows_of_record = 0
            self.count_waiting()
        if self._bad_records.keep(rejected, hint):
            assignment.rejected.append(rejected)
            self.rows += 1
            self.bytes += deep_size(rejected.key) + deep_size(rejected.value) + deep_size(rejected.headers)

    def discard(self, tp: TopicPartition, offset: int) -> None:
        """Drop all rows of a message that ends the process."""
        if tp in self._assignments:
            self._assignments[tp].discard(offset)
            self.count_waiting()

    def seal(self, number: int, reason: str | None) -> Batch | None:
        """Take out the waiting records as the portion of this number, with how far the partitions were read.

        ``None`` if there is nothing new. How far alone is worth a portion only if that ends the batch.
        """
        news = [each for each in self._assignments.values() if each.waiting or each.is_ahead]
        sealed = [assignment.seal() for assignment in news if assignment.waiting]
        if not (sealed or (news and reason)):
            return None
        parts, rows, rejected = zip(*sealed, strict=True) if sealed else ((), (), ())
        ends = {assignment.tp: assignment.seal_end() for assignment in news}
        size, self.rows, self.bytes = self.bytes, 0, 0
        records = tuple(chain.from_iterable(rejected))
        messages = tuple(list[Message]() for _ in parts)
        return Batch(number, reason, parts, rows, size, records, messages, news[0].token, ends)

    def count_waiting(self) -> None:
        """Count again, after records were dropped or assignments began or ended."""
        before, self.rows = self.rows, sum(assignment.waiting for assignment in self._assignments.values())
        self.bytes = self.bytes * self.rows // before if before else 0


class RowSizer:
    """Estimates the size in Python of rows that came out of messages of known size.

    Walking every row would cost as much as all else the sink does with it (5 µs of a dict with ten fields), so only
    each 64th is walked, and the others take its ratio of memory to message bytes.
    """

    def __init__(self) -> None:
        self._seen = 0
        self._factor = 0.0

    def size(self, value: Any, message_bytes: int) -> int:
        """Estimated bytes of one row.

        Args:
            value: the decoded record, with its key and headers.
            message_bytes: size of the Kafka message it came in.
        """
        seen = self._seen
        self._seen = seen + 1
        if seen < _MEASURED_FIRST or seen % _MEASURED_EVERY == 0:
            measured = deep_size(value)
            factor = measured / max(1, message_bytes)
            self._factor = factor if seen == 0 else self._factor + _SMOOTHING * (factor - self._factor)
            return measured + _ROW_OVERHEAD
        return int(message_bytes * self._factor) + _ROW_OVERHEAD
