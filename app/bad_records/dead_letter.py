"""The dead letter: Parquet files next to the table with unchanged rejected records and the reasons.

Each topic partition and batch has one file. The file is named like a data file of one topic partition:
``<root>/_dead_letter/<table>/data_….parquet``.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from app.bad_records.refusals import UNKNOWN_SIZE
from app.errors import DataError
from app.json_texts import to_json
from app.model import Headers, Rejected, TopicPartition
from app.reason_texts import Reason

_MS = pa.timestamp("ms", tz="UTC")
HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", _MS),
        ("key", pa.binary()),
        ("key_json", pa.string()),
        ("value", pa.binary()),
        ("value_json", pa.string()),
        ("headers", HEADERS),
        ("reason", pa.string()),
        ("rejected_at", _MS),
        ("truncated", pa.bool_()),
        ("value_size", pa.int64()),
    ]
)
_REQUIRED = {"topic", "partition", "offset", "reason", "rejected_at"}
_READABLE = pa.schema([field.with_nullable(field.name not in _REQUIRED) for field in SCHEMA])
_ROWS_AT_A_TIME = 1024  # rows to read at a time, because a record may have a megabyte


class DeadLetter(NamedTuple):
    """A rejected record in the dead letter. Key and value are bytes or ``None``."""

    record: Rejected
    rejected_at: datetime


def to_table(rejected: Sequence[Rejected], clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> pa.Table:
    """Returns the records as a table of ``SCHEMA``. No value raises an error.

    ``key`` and ``value`` contain bytes, and text as UTF-8. ``key_json`` and ``value_json`` contain other Python objects
    from a deserializer or ``transform()`` as JSON. A missing value, such as a tombstone's, is null in both.
    ``truncated`` marks records with only the start of their value. ``value_size`` is the size of the complete value.
    """
    now = clock()
    rows = [_row(record, now) for record in rejected]
    columns = zip(*rows, strict=True) if rows else ([] for _ in SCHEMA)
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], SCHEMA)


def write(rejected: Sequence[Rejected], path: Path) -> None:
    pq.write_table(to_table(rejected), path, compression="zstd")


def read(path: Path) -> Iterator[DeadLetter]:
    """Yields the records of a file in their order. A key or value without bytes is returned as its JSON."""
    doing = f"reading {path.name} of the dead letter"
    try:
        with pq.ParquetFile(path) as file:
            if set(file.schema_arrow.names) != set(SCHEMA.names):
                cause = f"it has the columns {', '.join(file.schema_arrow.names)}"
                raise DataError(doing, cause, "Move files that the connector did not write out of this folder")
            at = SCHEMA.get_field_index("timestamp")
            for batch in file.iter_batches(_ROWS_AT_A_TIME):
                # Timestamps are read in ms, because producers may set timestamps that do not fit a datetime.
                typed = batch.select(SCHEMA.names).cast(_READABLE)
                plain = typed.set_column(at, "timestamp", typed["timestamp"].cast(pa.int64()))
                yield from map(_dead_letter, plain.to_pylist())
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise DataError(doing, str(error), "Delete the file, or replace it by an intact copy") from error


def _row(record: Rejected, now: datetime) -> tuple[Any, ...]:
    return (
        _text(record.tp.topic),
        record.tp.partition,
        record.offset,
        record.timestamp,
        *_bytes_or_json(record.key),
        *_bytes_or_json(record.value),
        _headers(record.headers),
        _text(record.reason.whole),
        now,
        record.is_truncated,
        record.value_size if record.value_size != UNKNOWN_SIZE else None,
    )


def _bytes_or_json(value: Any) -> tuple[bytes | None, str | None]:
    if value is None:
        return None, None
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value), None
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass"), None
    return None, to_json(value)


def _headers(headers: Headers | None) -> list[dict[str, Any]] | None:
    if headers is None:
        return None
    return [{"key": _text(key), "value": _bytes(*_bytes_or_json(value))} for key, value in headers]


def _text(text: str) -> str:
    """Returns the text with escapes instead of lone surrogates, which UTF-8 cannot encode."""
    return text.encode("utf-8", "backslashreplace").decode()


def _dead_letter(row: dict[str, Any]) -> DeadLetter:
    size = UNKNOWN_SIZE if row["value_size"] is None else int(row["value_size"])
    record = Rejected(
        tp=TopicPartition(row["topic"], row["partition"]),
        offset=row["offset"],
        timestamp=row["timestamp"],
        key=_bytes(row["key"], row["key_json"]),
        value=_bytes(row["value"], row["value_json"]),
        headers=[(header["key"], header["value"]) for header in row["headers"] or ()],
        reason=Reason(row["reason"]),
        value_size=size if row["truncated"] else None,
    )
    return DeadLetter(record, row["rejected_at"])


def _bytes(raw: bytes | None, json: str | None) -> bytes | None:
    return json.encode() if raw is None and json is not None else raw
