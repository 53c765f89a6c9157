"""Rejects messages that cannot become rows, with the reason, and lets consuming go on behind them."""

from typing import Any

from confluent_kafka import TopicPartition as KafkaTopicPartition
from quixstreams.kafka.exceptions import KafkaConsumerException, KafkaProducerDeliveryError
from quixstreams.models import RawConfluentKafkaMessageProto, SuccessfulConfluentKafkaMessageProto, Topic
from quixstreams.models import Row as FrameworkRow
from quixstreams.state.exceptions import StateTransactionError

from app.bad_records.refusals import (
    LONGEST_REASON,
    NotARowError,
    NullValueError,
    Refusal,
    TooBigError,
    message_size,
    not_decompressed,
    not_deserialized,
    rejected_row,
)
from app.consumer.assignment import Assignments
from app.consumer.checkpoints import Checkpoints
from app.consumer.errors import cannot_be_decompressed, consuming_failed
from app.consumer.paused_partitions import PausedPartitions
from app.consumer.sink import LakeSink
from app.consumer.user_code import at, line_of
from app.errors import ConnectorError, cut
from app.model import Message, TopicPartition

# Errors of an earlier record's output, of the framework, or of a full producer queue; not of the current record.
_NOT_OF_THE_RECORD = (ConnectorError, KafkaProducerDeliveryError, StateTransactionError, BufferError)
_HINT_TRANSFORM = "Correct transform() in app/transform.py"


def not_processed(error: Exception, row: FrameworkRow, message: Message | None) -> Refusal:
    """Refuses a record at which ``transform()`` failed, or that became no row.

    Args:
        error: why.
        row: the record as the framework passed it to ``transform()``.
        message: the one that holds this record alone; ``None`` where it is unknown or holds several.
    """
    if isinstance(error, NullValueError) and row.value is not None:
        error = NullValueError("transform() made null of it, as a function does that returns nothing")
    is_ours = isinstance(error, NotARowError)
    raised = cut(f"transform() raised {error!r}", LONGEST_REASON)
    reason = str(error) if is_ours else f"{raised}{at(line_of(error))}"
    rejected = rejected_row(TopicPartition(row.topic, row.partition), row, message, reason)
    return Refusal(rejected, error.hint if isinstance(error, NotARowError) else _HINT_TRANSFORM)


def refuse_too_big(topic: Topic, limit: int) -> None:
    """Make the topic raise ``TooBigError`` for larger messages, before their bytes are deserialized.

    Args:
        topic: of the application; its ``row_deserialize`` is replaced.
        limit: bytes of the value, the key and the headers.
    """
    deserialize = topic.row_deserialize

    def row_deserialize(message: Any) -> Any:
        size = message_size(message)
        if size > limit:
            raise TooBigError(size, limit)
        return deserialize(message)

    topic.row_deserialize = row_deserialize  # type: ignore[method-assign] # the framework has no other place for it


class CurrentMessage:
    """Remembers the message whose record is being processed; the framework passes on only the record.

    Attributes:
        message: the message, if it holds one record; else ``None``.
    """

    def __init__(self) -> None:
        self.message: Message | None = None

    def keep_of(self, topic: Topic) -> None:
        """Remember the message of each record of this topic."""
        deserialize = topic.row_deserialize

        def deserialize_and_keep(
            message: SuccessfulConfluentKafkaMessageProto,
        ) -> Any:
            self.message = None
            made = deserialize(message)
            self.message = message if isinstance(made, FrameworkRow) else None  # type: ignore[assignment] # it has come
            return made

        vars(topic)["row_deserialize"] = deserialize_and_keep

    def of(self, row: FrameworkRow) -> Message | None:
        """The message of this row; ``None`` if the row came through an internal topic of the framework."""
        message = self.message
        if message is None or (message.topic(), message.partition()) != (row.topic, row.partition):
            return None
        return message if message.offset() == row.offset else None


class RejectedMessages:
    """Gives messages that cannot become rows to the sink as rejected records, and stores their offsets.

    Args:
        consumer: of quixstreams.
        assignments: the current ones, with the next offset of each.
        sink: takes rejected records.
        checkpoints: store their offsets.
        paused: the partitions that wait for their claims.
        current: the message whose record is being processed.
    """

    def __init__(
        self,
        *,
        consumer: Any,
        assignments: Assignments,
        sink: LakeSink,
        checkpoints: Checkpoints,
        paused: PausedPartitions,
        current: CurrentMessage,
    ) -> None:
        self._consumer = consumer
        self._assignments = assignments
        self._sink = sink
        self._checkpoints = checkpoints
        self._paused = paused
        self._current = current
        self._poll = consumer.poll
        consumer.poll = self._polled  # the framework keeps only the error of a failed message

    def consuming_failed(self, error: Exception, message: Message | None) -> bool:
        """Whether the loop may go on; rejects a message that does not deserialize and counts it as consumed."""
        if isinstance(error, KafkaConsumerException):
            if message is not None and cannot_be_decompressed(error):
                self.pass_over(message)
                return True
            return consuming_failed(error)
        if message is None:
            return False
        refusal = not_deserialized(error, message)
        tp, offset = refusal.rejected.tp, refusal.rejected.offset
        expected = self._assignments.expected(tp)
        if offset < expected:
            self._paused.seek_to_expected(tp, offset, expected)
            return True
        self._reject(refusal)
        return True

    def processing_failed(self, error: Exception, row: FrameworkRow | None) -> bool:
        """Whether the loop may go on; rejects a record at which ``transform()`` failed or that became no row."""
        if isinstance(error, _NOT_OF_THE_RECORD) or row is None:
            return False
        refusal = not_processed(error, row, self._current.of(row))
        self._sink.reject(refusal.rejected, refusal.hint)
        return True

    def pass_over(self, message: Message) -> None:
        """Seek behind a message that Kafka's client cannot decompress; the dead letter gets its offset and the reason.

        If several messages were compressed together, the client fails again until the last of them is passed over.
        """
        tp = TopicPartition(message.topic(), message.partition())
        if tp not in self._assignments or self._paused.waits(tp):
            return
        refusal = not_decompressed(message, max(message.offset(), self._assignments.expected(tp)))
        self._reject(refusal)
        self._consumer.seek(KafkaTopicPartition(*tp, refusal.rejected.offset + 1))

    def _polled(self, timeout: float | None = None) -> RawConfluentKafkaMessageProto | None:
        message: RawConfluentKafkaMessageProto | None = self._poll(timeout)
        error = message.error() if message else None
        if message is None or error is None or not cannot_be_decompressed(KafkaConsumerException(error=error)):
            return message
        self.pass_over(message)  # type: ignore[arg-type]
        return None

    def _reject(self, refusal: Refusal) -> None:
        """Reject a message and store its offset, which the framework does only for messages that it could read."""
        rejected = refusal.rejected
        self._sink.begin_record()
        self._sink.reject(rejected, refusal.hint)
        self._assignments.consumed(rejected.tp, rejected.offset, rejected.timestamp)
        self._checkpoints.store_offset(*rejected.tp, rejected.offset)
