"""The values that packages exchange. All values are frozen, so that no receiver can change a batch."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import methodcaller
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol
from uuid import UUID

from app.reason_texts import Reason

EACH_TOPIC: Final = "{topic}"  # in TABLE_NAME, if each of several topics has a separate table
KEY_COLUMN = "__key"  # contains the Kafka key


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]"


_NO_TIMESTAMP = -1  # in Kafka's messages; no producer can send this moment of 1969


def known_timestamp(ms: int) -> int | None:
    """Returns a Kafka timestamp (ms since the epoch); ``None`` if the message has no timestamp."""
    return None if ms == _NO_TIMESTAMP else ms


@dataclass(frozen=True, slots=True)
class Maintenance:
    """The last ``compact`` and ``erase --older-than`` of a table. Times are in seconds since the epoch, 0 for none.

    Attributes:
        begun: Start of the last run that the connector started itself. This run may be in progress or interrupted.
        ended: End of the last complete ``compact``. The next four are numbers of that run.
        before: Number of files that this run merged.
        after: Number of files that this run wrote.
        later: Number of small files that this run skipped because they were too young.
        failed: Number of folders that this run could not merge because of an error.
        erased: End of the last complete ``erase``. The next three belong to that run.
        age: Minimum age of the erased rows, in seconds.
        rows: Number of rows that this run erased.
        left: Number of folders in which this run could not erase rows because of an error.
        refused: Percentage of the table's bytes that a later run would have erased, which its limit did not allow.
        clock: Seconds by which a later run found this machine's clock ahead of the store's, so it erased nothing.
    """

    begun: float = 0.0
    ended: float = 0.0
    before: float = 0
    after: float = 0
    later: float = 0
    failed: float = 0
    erased: float = 0.0
    age: float = 0.0
    rows: float = 0
    left: float = 0
    refused: float = 0
    clock: float = 0


Headers = Sequence[tuple[str, str | bytes | None]]


class Message(Protocol):
    """A record of Kafka without an error (``confluent_kafka.Message``). Its length is the size of its value."""

    def __len__(self) -> int: ...
    def topic(self) -> str: ...
    def partition(self) -> int: ...
    def offset(self) -> int: ...
    def timestamp(self) -> tuple[int, int]: ...
    def key(self) -> bytes | None: ...
    def value(self) -> bytes | None: ...
    def headers(self) -> list[tuple[str, bytes]] | None: ...
    def set_headers(self, value: list[tuple[str, bytes]]) -> None: ...
    def error(self) -> Any: ...


# methodcaller: any other call inspects the result, and ignores the error that the client has set with it.
_headers = methodcaller("headers")
_UNREADABLE_NAME = "\ufffd"  # Unicode's replacement character


def headers_of(message: Message) -> list[tuple[str, bytes]] | None:
    """Returns the headers of a message, including headers with a name that is not UTF-8.

    Only this function and ``headers_of_all`` may call ``headers()``.

    If a name is not UTF-8, Kafka's client raises an error and leaves a null pointer as the name. Any later use of that
    pointer ends the process. This function replaces the name and keeps the value.
    """
    try:
        headers: list[tuple[str, bytes]] | None = _headers(message)
    except SystemError:
        return replace_unreadable_names(message)
    return headers


def headers_of_all(messages: Sequence[Message]) -> Sequence[list[tuple[str, bytes]] | None]:
    """Returns the headers of many messages like ``headers_of``, in half the time."""
    headers: list[Any] = []
    rest = map(_headers, messages)
    while len(headers) < len(messages):
        try:
            headers.extend(rest)
        except SystemError:  # of the next message; the headers of earlier ones are already in the list
            headers.append(replace_unreadable_names(messages[len(headers)]))
    return headers


def replace_unreadable_names(message: Message) -> list[tuple[str, bytes]]:
    """Replaces the names of headers that are not UTF-8, after Kafka's client has raised ``SystemError`` for a name."""
    headers: Any = _headers(message)
    readable = [(_UNREADABLE_NAME if _has_null(header) else header[0], header[1]) for header in headers]
    message.set_headers(readable)
    return readable


def _has_null(header: Any) -> bool:
    return repr(header).startswith("(<NULL>")  # the only safe way to detect the null pointer


class Pairs(dict[str, Any]):
    """The value of a map, which has a schema with a type for maps. Any other ``dict`` is an object with fields."""


def deep_size(value: Any) -> int:
    """Returns the size in memory of a decoded value with all its parts, without names of fields, which rows share."""
    size = sys.getsizeof(value)
    if isinstance(value, dict):
        return size + sum(map(deep_size, value.values()))
    if isinstance(value, list | tuple):
        return size + sum(map(deep_size, value))
    return size


class Row(NamedTuple):
    """One decoded record: value, key, offset, headers, and the Kafka timestamp.

    ``timestamp`` is in ms since the epoch; -1 if the message has no timestamp, see ``known_timestamp``. ``message`` is
    the record's message; ``None`` if the message is unknown or became several rows.
    """

    value: dict[str, Any]
    key: Any
    timestamp: int
    offset: int
    headers: Headers | None = None
    message: Message | None = None


SchemaId = int | UUID
"""The id of a schema in a registry."""


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema of a registry.

    ``kind`` is ``AVRO``, ``JSON`` or ``PROTOBUF``. The texts of ``PROTOBUF`` are descriptors in base64 where possible.
    ``references`` are the schemas that ``text`` refers to by ``names``; a schema comes after its own references.
    """

    kind: str
    text: str
    references: Sequence[str] = ()
    names: Sequence[str] = ()
    is_of_glue: bool = False  # of AWS: its records identify a message by its number, in the order of the names


FindSchema = Callable[[SchemaId], RegisteredSchema]
"""Queries the registry. Raises ``ValueError`` with the reason if the id has no usable schema, and ``RetryableError`` if
the registry does not answer."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """A record that cannot become a row and goes to the dead letter.

    ``key`` and ``value`` are the bytes of the message if it contains only this record, otherwise the results of the
    deserializers or ``transform()``. ``timestamp`` is in ms since the epoch, ``None`` if the message has none.
    ``value_size`` is ``None`` for a complete record. Otherwise it is the size of the original value in bytes, -1 if
    unknown.
    """

    tp: TopicPartition
    offset: int
    timestamp: int | None
    key: Any
    value: Any
    headers: Headers | None
    reason: Reason
    value_size: int | None = None

    @property
    def nbytes(self) -> int:
        """Estimated size in memory."""
        return deep_size(self.key) + deep_size(self.value) + deep_size(self.headers)

    @property
    def is_truncated(self) -> bool:
        """Whether this is only the beginning of the record, so that ``replay`` cannot restore it."""
        return self.value_size is not None


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The offsets ``first`` to ``last`` of one topic partition, including ``first`` and ``last``."""

    tp: TopicPartition
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file of the table. Each step of a batch replaces this object with a copy that has more fields.

    ``partition_values`` are unescaped strings in the order of the partition spec. Spark adds ``size`` in bytes and
    ``path`` on this machine. The upload adds ``last_modified``. Only a registration needs ``footer``
    (``pyarrow.parquet.FileMetaData``) and ``uri``, which identifies the file in the catalog.
    """

    key: str
    partition_values: Mapping[str, str]
    rows: int
    size: int = 0
    path: Path = Path()
    last_modified: datetime = datetime.min
    footer: Any = None
    uri: str = ""


@dataclass(frozen=True, slots=True)
class LocalObject:
    """A file to store under ``key`` that is not a data file. ``records`` of it are in no other object of its batch."""

    path: Path
    key: str
    records: int = 0


class Mark(NamedTuple):
    """The last offset of a topic partition that is in the table after a batch is registered.

    Offsets of different ``series`` cannot be compared. Examples are offsets of a deleted topic and its successor, and
    offsets before and after the connector followed the group's offset.
    """

    tp: TopicPartition
    series: str
    end: int


@dataclass(frozen=True, slots=True)
class BatchPart:
    """The offsets of one topic partition in a batch or in a portion of a batch.

    ``owner`` is the assignment's token (24 hexadecimal digits). ``number`` is the batch's number. Token and number make
    file names unique over all attempts, members and recreated topics.
    """

    offsets: OffsetRange
    owner: str
    number: int


@dataclass(frozen=True, slots=True)
class Batch:
    """Records that are converted together.

    ``rows`` and ``messages`` contain one list for each of ``parts``, in their order. Messages are not converted yet.
    ``rejected`` contains the records of the same offsets that were refused before conversion.
    """

    parts: tuple[BatchPart, ...] = ()
    rows: tuple[list[Row], ...] = ()
    messages: tuple[list[Message], ...] = ()
    rejected: tuple[Rejected, ...] = ()


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A batch for Spark: an uncompressed Parquet file in the scratch folder.

    ``group_column`` contains for every row the index of its file in ``groups`` (int32). Spark sorts the rows of each
    file by ``sort_column``; ``None`` keeps their order. ``offsets`` are the offsets of the complete batch. They are
    empty if the file names contain them.

    ``largest_row`` is an upper bound of a row's bytes, 0 if unknown. ``large_values`` are Spark's paths of the leaf
    columns with a value of more than 64 KiB. In the columns ``without_dictionary`` a dictionary would save nothing.
    """

    path: Path
    group_column: str
    groups: tuple[DataFile, ...]
    sort_column: str | None = None
    offsets: tuple[OffsetRange, ...] = ()
    largest_row: int = 0
    large_values: Sequence[tuple[str, ...]] = ()
    without_dictionary: Sequence[str] = ()
