"""Records that the framework could not bring as far as a row, as they go to the dead letter."""

from dataclasses import dataclass
from typing import Any

from quixstreams.models import Row as FrameworkRow
from quixstreams.models import Topic

from app.bad_records import NotARowError, no_object, too_big
from app.model import Message, Rejected, Row, TopicPartition, known_timestamp
from app.user_code import at, line_of

HINT_DESERIALIZERS = (
    "Set KAFKA_VALUE_DESERIALIZER and KAFKA_KEY_DESERIALIZER to what the producer writes, or set ON_BAD_RECORD"
)
_HINT_TRANSFORM = "Correct transform() in app/transform.py"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A record that is no row, and what can be done about it."""

    rejected: Rejected
    hint: str


def not_deserialized(error: Exception, message: Message) -> Refusal:
    """A message that its deserializers could not read."""
    return Refusal(_as_it_came(message, f"it does not deserialize: {error}"), HINT_DESERIALIZERS)


def not_processed(error: Exception, row: FrameworkRow, message: Message | None) -> Refusal:
    """A record at which ``transform()`` failed, or that became no row; ``message`` where it is known and no other's."""
    is_ours = isinstance(error, NotARowError)
    reason = str(error) if is_ours else f"transform() raised {error!r}{at(line_of(error))}"
    if message is not None:
        rejected = _as_it_came(message, reason)
    else:
        tp = TopicPartition(row.topic, row.partition)
        rejected = Rejected(tp, row.offset, known_timestamp(row.timestamp), row.key, row.value, row.headers, reason)
    return Refusal(rejected, error.hint if isinstance(error, NotARowError) else _HINT_TRANSFORM)


def not_written(reason: str, row: Row, tp: TopicPartition, hint: str) -> Refusal:
    """A row that cannot be written."""
    if row.message is not None:
        return Refusal(_as_it_came(row.message, reason), hint)
    timestamp = known_timestamp(row.timestamp)
    return Refusal(Rejected(tp, row.offset, timestamp, row.key, row.value, row.headers, reason), hint)


def _as_it_came(message: Message, reason: str) -> Rejected:
    """The message byte by byte: JSON that is read and written again may be another one, and null is no tombstone."""
    return Rejected(
        TopicPartition(message.topic(), message.partition()),
        message.offset(),
        known_timestamp(message.timestamp()[1]),
        message.key(),
        message.value(),
        message.headers(),
        reason,
    )


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
        try:
            row: Any = self._topic.row_deserialize(message)  # type: ignore[arg-type] # it asks for no more than this
        except Exception as error:  # noqa: BLE001 - whatever a deserializer raises
            return not_deserialized(error, message)
        if not isinstance(row.value, dict):
            return not_processed(no_object(row.value), row, message)
        size = len(message)
        if size > self.max_record_bytes:
            return not_processed(too_big(size, self.max_record_bytes), row, message)
        return Row(row.value, row.key, row.timestamp, row.offset, row.headers, message)
