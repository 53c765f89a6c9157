"""The values that the packages exchange. All are frozen, so no receiver can change a batch of another."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import methodcaller
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol
from uuid import UUID

from app.reason_texts import Reason

EACH_TOPIC: Final = "{topic}"  # in the name of a table, where each of several topics has one
KEY_COLUMN = "__key"  # where a table has the Kafka key


class TopicPartition(NamedTuple):
    """One partition of one Kafka topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]"


_NO_TIMESTAMP = -1  # in Kafka's messages; no producer can send this moment of 1969


def known_timestamp(ms: int) -> int | None:
    """Returns a timestamp as Kafka gives it (ms since the epoch), ``None`` where the message has none."""
    return None if ms == _NO_TIMESTAMP else ms


@dataclass(frozen=True, slots=True)
class Maintenance:
    """What ``compact`` and ``erase --older-than`` last did to a table; times in seconds since the epoch, 0 for none.

    Attributes:
        begun: of the last run by the connector itself, which may be under way or cut off.
        ended: of the last ``compact`` that came to its end; the next four are of that one.
        before: files that were merged.
        after: files that they became.
        later: small files that were too young.
        failed: folders not merged because of an error.
        erased: of the last ``erase`` that came to its end; the next three are of that one.
        age: in seconds, of what was to be erased.
        rows: that were erased.
        left: folders not erased because of an error.
        refused: percentage of the table's bytes that a later one would have erased, and was not allowed to.
        clock: seconds by which a later one found this machine's clock ahead of the store's, so that it erased nothing.
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
    """A record as it comes from Kafka, without an error; ``confluent_kafka.Message`` in production.

    Its length is that of the value in bytes.
    """

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


# methodcaller: any other call inspects the result, and not the error that came with it.
_headers = methodcaller("headers")
_UNREADABLE_NAME = "\ufffd"  # Unicode's replacement character


def headers_of(message: Message) -> list[tuple[str, bytes]] | None:
    """Returns the headers of a message, also those with a name that is not UTF-8.

    No code but this and ``headers_of_all`` may call ``headers()``.

    For such a name Kafka's client raises and leaves a null pointer in its place. Any later use of that pointer ends the
    process. This function replaces the name and keeps the value.
    """
    try:
        headers: Any = _headers(message)
    except SystemError:
        return replace_unreadable_names(message)
    known: list[tuple[str, bytes]] | None = headers
    return known


def headers_of_all(messages: Sequence[Message]) -> Sequence[list[tuple[str, bytes]] | None]:
    """Returns what ``headers_of`` does, of many messages, in half the time."""
    found: list[Any] = []
    rest = map(_headers, messages)
    while len(found) < len(messages):
        try:
            found.extend(rest)
        except SystemError:  # of the next one; what came before is kept
            found.append(replace_unreadable_names(messages[len(found)]))
    return found


def replace_unreadable_names(message: Message) -> list[tuple[str, bytes]]:
    """Replaces the names of headers that are not UTF-8, once Kafka's client has raised ``SystemError`` for one."""
    headers: Any = _headers(message)
    readable = [(_UNREADABLE_NAME if _has_null(header) else header[0], header[1]) for header in headers]
    message.set_headers(readable)
    return readable


def _has_null(header: Any) -> bool:
    return repr(header).startswith("(<NULL>")  # the one safe way to see it


def deep_size(value: Any) -> int:
    """Returns the bytes of a decoded value with all its parts, without names of fields, which rows share."""
    size = sys.getsizeof(value)
    if isinstance(value, dict):
        return size + sum(map(deep_size, value.values()))
    if isinstance(value, list | tuple):
        return size + sum(map(deep_size, value))
    return size


class Row(NamedTuple):
    """One decoded record: value, key, offset, headers, and the Kafka timestamp.

    ``timestamp`` is in ms since the epoch, -1 if the message has none, see ``known_timestamp``. ``message`` is the
    record's message, if it is known and has become no other row.
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

    ``kind`` is ``AVRO``, ``JSON`` or ``PROTOBUF``, of which the texts are descriptors in base64, if there are any.
    ``references`` are the schemas that ``text`` names, by ``names``; each stands behind those that it names itself.
    """

    kind: str
    text: str
    references: Sequence[str] = ()
    names: Sequence[str] = ()
    is_of_glue: bool = False  # of AWS, whose records name a message by its number among all in order of names


FindSchema = Callable[[SchemaId], RegisteredSchema]
"""Asks the registry: raises ``ValueError`` with the reason for an id without a usable schema, and ``RetryableError``
without an answer."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """A record that cannot become a row and goes to the dead letter.

    ``key`` and ``value`` are the bytes of the message if it holds only this record, otherwise the results of the
    deserializers or ``transform()``. ``timestamp`` is in ms since the epoch, ``None`` if the message has none.
    ``value_size`` is ``None`` for a record that is kept whole. Otherwise it is the size of the original value in bytes,
    -1 if unknown.
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
        """About what it takes in memory."""
        return deep_size(self.key) + deep_size(self.value) + deep_size(self.headers)

    @property
    def is_truncated(self) -> bool:
        """Whether only the beginning is kept, so that no replay can restore the record."""
        return self.value_size is not None


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets ``first`` to ``last``, both included, of one topic-partition."""

    tp: TopicPartition
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file of the table; each step replaces it by one of which more is known.

    ``partition_values`` are unescaped strings in the order of the partition spec. Spark adds ``size`` in bytes and
    ``path`` on this machine, the upload ``last_modified``. Only a registration needs ``footer``
    (``pyarrow.parquet.FileMetaData``), and ``uri``, by which the catalog knows the file.
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
    """Another file that is stored under ``key``; ``records`` of it are in no other object of its batch."""

    path: Path
    key: str
    records: int = 0


class Mark(NamedTuple):
    """How far a topic-partition is in the table once a batch is registered.

    Offsets of different ``series`` have nothing to do with each other: those of a deleted topic and its successor, or
    from before and after the group's offset was followed.
    """

    tp: TopicPartition
    series: str
    end: int


@dataclass(frozen=True, slots=True)
class BatchPart:
    """The offsets of one topic-partition in a batch, or in a portion of one.

    ``owner`` is the token of the assignment (24 hex digits), and ``number`` the batch's number. Together they make file
    names unique over all attempts, members and recreated topics.
    """

    offsets: OffsetRange
    owner: str
    number: int


@dataclass(frozen=True, slots=True)
class Batch:
    """Records to convert together.

    ``rows`` and ``messages`` have one list per part, in the order of ``parts``; messages are not converted yet.
    ``rejected`` holds the records of the same offsets that were refused before conversion.
    """

    parts: tuple[BatchPart, ...] = ()
    rows: tuple[list[Row], ...] = ()
    messages: tuple[list[Message], ...] = ()
    rejected: tuple[Rejected, ...] = ()


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A batch for Spark: an uncompressed Parquet file in the scratch folder.

    ``group_column`` holds for every row the index of its file in ``groups`` (int32). ``sort_column`` orders the rows of
    each file, if there is one; ``None`` keeps their order. ``offsets`` are the offsets of the whole batch if file
    names do not hold them, otherwise empty.

    ``largest_row`` is an upper bound of a row's bytes, 0 if unknown. ``large_values`` are Spark's paths of the leaf
    columns with a value of more than 64 KiB. The columns ``without_dictionary`` are not worth one.
    """

    path: Path
    group_column: str
    groups: tuple[DataFile, ...]
    sort_column: str | None = None
    offsets: tuple[OffsetRange, ...] = ()
    largest_row: int = 0
    large_values: Sequence[tuple[str, ...]] = ()
    without_dictionary: Sequence[str] = ()
