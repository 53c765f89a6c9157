"""Records that are no rows, with the reason and what can be done about it, as they go to the dead letter."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from app.bad_records.big_messages import TooBigError, truncated
from app.errors import cut
from app.message_headers import headers_of
from app.model import Headers, Message, Rejected, Row, TopicPartition, known_timestamp

HINT_DESERIALIZERS = (
    "Set KAFKA_VALUE_DESERIALIZER and KAFKA_KEY_DESERIALIZER to what the producer writes, or set ON_BAD_RECORD"
)

_HINT_COMPRESSION = (
    "Make it smaller at its producer: of what is compressed with zstd the client takes 100 MB at once. "
    "Its key and value are not known here; the topic still has it"
)

_UNKNOWN_SIZE = -1

LONGEST_REASON = 1_000  # characters; what others raise may quote the whole record


class AnyRow(Protocol):
    """A row of ours or of the framework."""

    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def key(self) -> Any: ...
    @property
    def value(self) -> Any: ...
    @property
    def headers(self) -> Headers | None: ...


@dataclass(frozen=True, slots=True)
class Refusal:
    """A record that is no row, and what can be done about it."""

    rejected: Rejected
    hint: str


ReadMessage = Callable[[Message], Row | Refusal]
"""Makes a row of a message, or tells why it is none."""


def not_deserialized(error: Exception, message: Message) -> Refusal:
    """A message that its deserializers could not read, or that is too big for them."""
    if isinstance(error, TooBigError):
        return Refusal(truncated(message, str(error)), error.hint)
    reason = cut(f"it does not deserialize: {error}", LONGEST_REASON)
    return Refusal(as_it_came(message, reason), HINT_DESERIALIZERS)


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


def not_written(reason: str, row: Row, tp: TopicPartition, hint: str) -> Refusal:
    """A row that cannot be written."""
    return Refusal(rejected_row(tp, row, row.message, reason), hint)


def rejected_row(tp: TopicPartition, row: AnyRow, message: Message | None, reason: str) -> Rejected:
    """What the dead letter keeps of a row: its message as it came where that is known, else what it has become."""
    if message is not None:
        return as_it_came(message, reason)
    return Rejected(tp, row.offset, known_timestamp(row.timestamp), row.key, row.value, row.headers, reason)


def as_it_came(message: Message, reason: str) -> Rejected:
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
