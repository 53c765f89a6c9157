"""Records that the framework could not bring as far as a row, as they go to the dead letter."""

from dataclasses import dataclass
from typing import Any

from quixstreams.models import Row as FrameworkRow
from quixstreams.models import Topic

from app.bad_records import NotARowError, NullValueError, no_object
from app.big_messages import TooBigError, message_size, truncated
from app.message_headers import headers_of
from app.model import Message, Rejected, Row, TopicPartition, known_timestamp
from app.rescue import cut
from app.user_code import at, line_of

HINT_DESERIALIZERS = (
    "Set KAFKA_VALUE_DESERIALIZER and KAFKA_KEY_DESERIALIZER to what the producer writes, or set ON_BAD_RECORD"
)
_HINT_COMPRESSION = (
    "Make it smaller at its producer: of what is compressed with zstd the client takes 100 MB at once. "
    "Its key and value are not known here; the topic still has it"
)
_UNKNOWN_SIZE = -1
_LONGEST_REASON = 1_000  # characters; what others raise may quote the whole record
_HINT_TRANSFORM = "Correct transform() in app/transform.py"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A record that is no row, and what can be done about it."""

    rejected: Rejected
    hint: str


def not_deserialized(error: Exception, message: Message) -> Refusal:
    """A message that its deserializers could not read, or that is too big for them."""
    if isinstance(error, TooBigError):
        return Refusal(truncated(message, str(error)), error.hint)
    reason = cut(f"it does not deserialize: {error}", _LONGEST_REASON)
    return Refusal(_as_it_came(message, reason), HINT_DESERIALIZERS)


def not_decompressed(message: Message, offset: int) -> Refusal:
    """A message that Kafka's client could not decompress; ``offset`` is its own or, of several in one, the next."""
    rejected = Rejected(
        TopicPartition(message.topic(), message.partition()),
        offset,
        None,
        None,
        None,
        None,
        f"the Kafka client cannot decompress it: {message.error().str()}",
        _UNKNOWN_SIZE,
    )
    return Refusal(rejected, _HINT_COMPRESSION)


def not_processed(error: Exception, row: FrameworkRow, message: Message | None) -> Refusal:
    """A record at which ``transform()`` failed, or that became no row; ``message`` where it is known and no other's."""
    if isinstance(error, NullValueError) and row.value is not None:
        error = NullValueError("transform() made null of it, as a function does that returns nothing")
    is_ours = isinstance(error, NotARowError)
    raised = cut(f"transform() raised {error!r}", _LONGEST_REASON)
    reason = str(error) if is_ours else f"{raised}{at(line_of(error))}"
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
        headers_of(message),
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
