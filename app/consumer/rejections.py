"""Reads messages with the topic's deserializers, and says why those that become no row are refused."""

from typing import Any

from quixstreams.models import Row as FrameworkRow
from quixstreams.models import Topic

from app.bad_records.refusals import (
    LONGEST_REASON,
    NotARowError,
    NullValueError,
    Refusal,
    TooBigError,
    message_size,
    no_object,
    not_deserialized,
    rejected_row,
)
from app.consumer.user_code import at, line_of
from app.errors import cut
from app.model import Message, Row, TopicPartition

_HINT_TRANSFORM = "Correct transform() in app/transform.py"


def not_processed(error: Exception, row: FrameworkRow, message: Message | None) -> Refusal:
    """A record at which ``transform()`` failed, or that became no row; ``message`` where it is known and no other's."""
    if isinstance(error, NullValueError) and row.value is not None:
        error = NullValueError("transform() made null of it, as a function does that returns nothing")
    is_ours = isinstance(error, NotARowError)
    raised = cut(f"transform() raised {error!r}", LONGEST_REASON)
    reason = str(error) if is_ours else f"{raised}{at(line_of(error))}"
    rejected = rejected_row(TopicPartition(row.topic, row.partition), row, message, reason)
    return Refusal(rejected, error.hint if isinstance(error, NotARowError) else _HINT_TRANSFORM)


class MessageReader:
    """Reads messages one by one, as the framework and the sink do where records are processed one by one.

    Args:
        topic: knows the deserializers.
        max_record_bytes: the largest message that becomes a row.
    """

    def __init__(self, topic: Topic, max_record_bytes: int) -> None:
        self._topic = topic
        self.max_record_bytes = max_record_bytes

    def read(self, message: Message) -> Row | Refusal:
        """The message's row, or why it has none."""
        size = message_size(message)
        if size > self.max_record_bytes:
            return not_deserialized(TooBigError(size, self.max_record_bytes), message)
        try:
            row: Any = self._topic.row_deserialize(message)  # type: ignore[arg-type] # it asks for no more than this
        except Exception as error:  # noqa: BLE001 - whatever a deserializer raises
            return not_deserialized(error, message)
        if not isinstance(row.value, dict):
            return not_processed(no_object(row.value), row, message)
        return Row(row.value, row.key, row.timestamp, row.offset, row.headers, message)


def refuse_too_big(topic: Topic, limit: int) -> None:
    """Let the topic raise ``TooBigError`` for messages above the limit, before anything is made of them."""
    deserialize = topic.row_deserialize

    def row_deserialize(message: Any) -> Any:
        size = message_size(message)
        if size > limit:
            raise TooBigError(size, limit)
        return deserialize(message)

    topic.row_deserialize = row_deserialize  # type: ignore[method-assign] # the framework has no other place for it
