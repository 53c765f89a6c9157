"""Messages that take more memory than there is: their beginning is kept, the rest is dropped at once.

Brokers bound the compressed size of a message: one of 400 MB may come as one of 400 kB.
"""

from app.bad_records.policy import NotARowError, too_big
from app.message_headers import headers_of
from app.model import Headers, Message, Rejected, TopicPartition, known_timestamp

KEPT_BYTES = 4096  # of the value and of the key: enough to tell who has sent it
_KEPT_HEADERS_BYTES = 64 * 1024


class TooBigError(NotARowError):
    """A message that is not even looked at.

    Args:
        size, limit: its bytes, and how many are allowed.
    """

    def __init__(self, size: int, limit: int) -> None:
        cause = too_big(size, limit)
        super().__init__(str(cause), cause.hint)


def message_size(message: Message) -> int:
    """Bytes of the value, the key and the headers."""
    return len(message) + len(message.key() or b"") + _headers_size(headers_of(message))


def truncated(message: Message, reason: str) -> Rejected:
    """What is kept of a message that is too big: where it stands, its size, and how it begins."""
    value, headers = message.value(), headers_of(message)
    return Rejected(
        TopicPartition(message.topic(), message.partition()),
        message.offset(),
        known_timestamp(message.timestamp()[1]),
        _beginning(message.key()),
        _beginning(value),
        headers if _headers_size(headers) <= _KEPT_HEADERS_BYTES else None,
        reason,
        len(value or b""),
    )


def _beginning(raw: bytes | None) -> bytes | None:
    return None if raw is None else raw[:KEPT_BYTES]


def _headers_size(headers: Headers | None) -> int:
    return sum(len(name) + len(value or b"") for name, value in headers) if headers else 0
