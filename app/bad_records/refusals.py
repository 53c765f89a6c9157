"""Records that cannot become rows: errors, their form in the dead letter, and the user's policy for bad records."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from json import JSONDecodeError
from typing import Literal

from app.errors import DataError
from app.logs import OnceAMinute
from app.model import Headers, Message, Rejected, Row, TopicPartition, headers_of, known_timestamp
from app.reason_texts import OtherFormat, Reason, about, reason_of

OF_THE_KEY = "of the key"  # text of a note that is added to an error
LONGEST_REASON = 1_000  # characters; the error of a library may quote the complete record
KEPT_BYTES = 4096  # bytes that are kept of the value and key of a large message, enough to identify the producer

_HINT_NO_OBJECT = "Turn it into a dict or filter it out in transform() of app/transform.py, or set ON_BAD_RECORD"
HINT_TRANSFORM = "Correct transform() in app/transform.py"
_HINT_COMPRESSION = (
    "Make it smaller at its producer: the client decompresses at most 100 MB of zstd. "
    "The connector has not received its key and value, which are still in the topic"
)
_KEPT_HEADERS_BYTES = 64 * 1024
UNKNOWN_SIZE = -1
OnBadRecord = Literal["dead-letter", "skip", "fail"]


class NotARowError(ValueError):
    """A record that cannot become a row although its message was decoded."""

    def __init__(self, reason: Reason, hint: str) -> None:
        super().__init__(reason)
        self.hint = hint


class NullValueError(NotARowError):
    """A null value: a tombstone, or ``transform()`` returned null for a value."""

    def __init__(self, cause: str = "its value is null (a tombstone)") -> None:
        super().__init__(Reason(f"{cause}, and a row needs an object with fields"), _HINT_NO_OBJECT)


class TooBigError(NotARowError):
    """A message that is too large for the memory. Only the start of the message is kept. Sizes are in bytes.

    Brokers limit only the compressed size of a message. A message of 400 MB may have a compressed size of 400 kB.
    """

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(
            Reason(f"its message has {size:,} bytes, and the limit with this memory is {limit:,} bytes"),
            "Raise MAX_BUFFER_MB and SPARK_DRIVER_MEMORY, or make it smaller at its producer",
        )


class BadRowsError(ValueError):
    """Some rows of a batch cannot be written. A step reports all these rows together.

    ``reasons`` contains reasons by position of the row in the step's rows. ``hint`` is empty for the default.
    """

    def __init__(self, reasons: Mapping[int, Reason], hint: str = "") -> None:
        self.reasons = dict(reasons)
        self.hint = hint
        row, reason = next(iter(self.reasons.items()))
        super().__init__(f"row {row}: {reason}" + (f", and {len(self.reasons) - 1} more" if len(reasons) > 1 else ""))


@dataclass(frozen=True, slots=True)
class Refusal:
    rejected: Rejected
    hint: str


ReadMessage = Callable[[Message], Row | Refusal]
"""Converts a message to a row, or returns the message's refusal."""


def no_object(value: object) -> NotARowError:
    if value is None:
        return NullValueError()
    kind = type(value).__name__
    return NotARowError(Reason(f"its value is of type {kind}, and a row needs an object with fields"), _HINT_NO_OBJECT)


def too_deep() -> NotARowError:
    return NotARowError(Reason("its value contains itself, or has too many levels"), _HINT_NO_OBJECT)


def check_row(value: object, timestamp: object, headers: object) -> None:
    """Raise ``NotARowError`` if ``transform()`` returned no object, or set a timestamp or headers of a wrong type."""
    if not isinstance(value, dict):
        raise no_object(value)
    if type(timestamp) is not int:
        raise NotARowError(about(timestamp, ", not a whole number", "set_timestamp() set "), HINT_TRANSFORM)
    if headers is None:
        return
    try:
        are_headers = isinstance(headers, list | tuple) and all(_is_header(*header) for header in headers)
    except (TypeError, UnicodeEncodeError):
        are_headers = False
    if not are_headers:
        cause = ", not a list of pairs of a name and bytes or text"
        raise NotARowError(about(headers, cause, "set_headers() set "), HINT_TRANSFORM)


def _is_header(name: object, value: object) -> bool:
    for text in (name, value):
        if isinstance(text, str):
            text.encode()
    return isinstance(name, str) and (value is None or isinstance(value, str | bytes))


def too_many_rows(rows: int) -> NotARowError:
    return NotARowError(
        Reason(f"transform() makes {rows:,} or more rows of it, which need more memory than MAX_BUFFER_MB allows"),
        "Make fewer rows in transform() of app/transform.py, or raise MAX_BUFFER_MB",
    )


def not_deserialized(error: Exception, message: Message) -> Refusal:
    """Returns the refusal of a message that deserializers could not read, or that is too large."""
    cause = reason_of(error)
    if isinstance(error, TooBigError):
        return Refusal(truncated(message, cause), error.hint)
    subject, setting, raw = "it", "KAFKA_VALUE_DESERIALIZER", message.value()
    if OF_THE_KEY in getattr(error, "__notes__", ()):
        subject, setting, raw = "its key", "KAFKA_KEY_DESERIALIZER", message.key()
    reason = Reason(f"{subject} does not deserialize: ").also(cause, cause.whole[:LONGEST_REASON])
    is_other = isinstance(cause, OtherFormat) or not (cause in error.args or _is_json(error, raw or b""))
    remedy = f"Set {setting} to the format of the producer" if is_other else "Correct it at its producer"
    return Refusal(unchanged(message, reason), f"{remedy}, or set ON_BAD_RECORD")


def _is_json(error: Exception, raw: bytes) -> bool:
    """Whether a JSON parser has read the text, and the text begins like a JSON object or list."""
    cause = error.__cause__ or error
    # The error has no text if the text is not Unicode.
    return isinstance(cause, JSONDecodeError) and (cause.doc.encode() or raw).lstrip().startswith((b"{", b"["))


def not_decompressed(message: Message, offset: int) -> Refusal:
    """Returns the refusal of a message that Kafka's client could not decompress.

    ``offset`` is the message's offset. If several messages are compressed together, it is the next offset to read.
    """
    tp, reason = _tp(message), Reason(f"the Kafka client cannot decompress it: {message.error().str()}")
    return Refusal(Rejected(tp, offset, None, None, None, None, reason, UNKNOWN_SIZE), _HINT_COMPRESSION)


def not_written(reason: Reason, row: Row, tp: TopicPartition, hint: str) -> Refusal:
    """Returns the refusal of a row, with the unchanged message if it is known, otherwise with the row."""
    if row.message is not None:
        return Refusal(unchanged(row.message, reason), hint)
    timestamp = known_timestamp(row.timestamp)
    return Refusal(Rejected(tp, row.offset, timestamp, row.key, row.value, row.headers, reason), hint)


def unchanged(message: Message, reason: Reason) -> Rejected:
    """Returns a rejected record with the bytes of the message, because parsed and rewritten JSON may differ."""
    timestamp, headers = known_timestamp(message.timestamp()[1]), headers_of(message)
    return Rejected(_tp(message), message.offset(), timestamp, message.key(), message.value(), headers, reason)


def truncated(message: Message, reason: Reason) -> Rejected:
    """Returns a rejected record with the start, the offset and the size of a message that is too large."""
    key, value, headers = message.key(), message.value(), headers_of(message)
    return replace(
        unchanged(message, reason),
        key=key and key[:KEPT_BYTES],
        value=value and value[:KEPT_BYTES],
        headers=headers if headers_size(headers) <= _KEPT_HEADERS_BYTES else None,
        value_size=len(value or b""),
    )


def _tp(message: Message) -> TopicPartition:
    return TopicPartition(message.topic(), message.partition())


def message_size(message: Message) -> int:
    return len(message) + len(message.key() or b"") + headers_size(headers_of(message))


def headers_size(headers: Headers | None) -> int:
    return sum(len(name) + len(value or b"") for name, value in headers) if headers else 0


class BadRecords:
    """Applies the user's policy to each bad record: keep it in the dead letter, skip it, or end the process.

    Logs at most one bad record of a topic per minute, and the number of all bad records at the end.
    """

    def __init__(
        self, choice: OnBadRecord, log: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._choice = choice
        self._log = log
        self._records = OnceAMinute(clock)  # used by the consumer's thread, and by the staging thread

    @property
    def skipped(self) -> int:
        """Number of records that were skipped since the start. Any thread may read this property."""
        return self._records.count if self._choice == "skip" else 0

    def keep(self, rejected: Rejected, hint: str) -> bool:
        """Returns whether the record goes to the dead letter. Raises ``DataError`` if the process must end."""
        record = f"the record of {rejected.tp} at offset {rejected.offset}"
        if self._choice == "fail":
            raise DataError(f"reading {record}", rejected.reason, hint, record=(rejected.tp, rejected.offset))
        if (since := self._records.turn(rejected.tp.topic)) is not None:
            fate = "goes to the dead letter" if self._choice == "dead-letter" else "is skipped (ON_BAD_RECORD=skip)"
            self._log(f"{record} {fate}: {rejected.reason}. {hint}{since}")
        return self._choice == "dead-letter"

    def log_total(self) -> None:
        """Logs the number of bad records since the start if it is not 0. Redelivered records are counted again."""
        if self._records.count:
            fate = "went to the dead letter" if self._choice == "dead-letter" else "were skipped (ON_BAD_RECORD=skip)"
            self._log(f"bad records since the start: {self._records.count:,}; they {fate}")
