"""Creates the columns of METADATA_COLUMNS, and converts Kafka timestamps for records without a timestamp field."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from app.bad_records.dead_letter import HEADERS
from app.convert.scalars import ZONED, OutOfRange, moment_at
from app.model import Headers, Row, TopicPartition, known_timestamp
from app.table.layout import PartitionSpec

KAFKA_TIMESTAMP = "__timestamp"
RESCUED_TIMESTAMP = "__kafka_timestamp"  # name in _rescued_data, because __timestamp could be a field of the record
# Readers support only the years 1 to 9999, but producers may set any timestamp, such as nanoseconds.
_READABLE_MS = range(-62_135_596_800_000, 253_402_300_800_000)


def metadata_of(spec: PartitionSpec, chosen: Sequence[str]) -> Sequence[str]:
    """Returns the names of ``METADATA_COLUMNS``, and the metadata names among the partition columns."""
    return list(dict.fromkeys([*chosen, *(name for name in spec.order if name in METADATA)]))


def metadata_columns(names: Sequence[str], rows: Sequence[Row], tps: Sequence[TopicPartition]) -> dict[str, pa.Array]:
    """Returns the metadata columns, each as long as ``rows``. ``names`` is the result of ``metadata_of``."""
    return {name: METADATA[name](rows, tps) for name in names}


def lost_metadata(names: Sequence[str], rows: Sequence[Row]) -> Mapping[str, Mapping[int, Any]]:
    """Returns timestamps that their column cannot store, by name in ``_rescued_data`` and by row."""
    if KAFKA_TIMESTAMP not in names:
        return {}
    stamps = ((row, known_timestamp(origin.timestamp)) for row, origin in enumerate(rows))
    lost = {row: ms for row, ms in stamps if ms is not None and ms not in _READABLE_MS}
    return {RESCUED_TIMESTAMP: lost} if lost else {}


def in_form_of(kind: pa.DataType | None, ms: int) -> Any:
    """Converts a Kafka timestamp (ms since the epoch) to the type of a column.

    If the conversion is impossible, returns the number. The number does not fit the column, and is rescued.
    """
    if kind is None or pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return ms
    moment = moment_at(ms, 1_000)
    if isinstance(moment, OutOfRange):
        return ms
    if pa.types.is_timestamp(kind):
        return moment if kind.tz else moment.replace(tzinfo=None)
    if pa.types.is_date(kind):
        return moment.date()
    return moment.isoformat(timespec="milliseconds") if pa.types.is_string(kind) else ms


def _timestamp(origin: Row) -> int | None:
    ms = known_timestamp(origin.timestamp)
    return ms if ms is not None and ms in _READABLE_MS else None


def _headers(headers: Headers | None) -> list[dict[str, str | bytes | None]] | None:
    """Returns the headers in the form of Spark's Kafka source, in the original order. Names may repeat."""
    if not headers:
        return None
    return [{"key": name, "value": value.encode() if isinstance(value, str) else value} for name, value in headers]


METADATA: Mapping[str, Callable[[Sequence[Row], Sequence[TopicPartition]], pa.Array]] = {
    "__topic": lambda _, tps: pa.array([tp.topic for tp in tps], pa.string()),
    "__partition": lambda _, tps: pa.array([tp.partition for tp in tps], pa.int32()),
    "__offset": lambda rows, _: pa.array([row.offset for row in rows], pa.int64()),
    KAFKA_TIMESTAMP: lambda rows, _: pa.array(map(_timestamp, rows), pa.timestamp("ms", "UTC")).cast(ZONED),
    "__headers": lambda rows, _: pa.array([_headers(row.headers) for row in rows], HEADERS),
}
