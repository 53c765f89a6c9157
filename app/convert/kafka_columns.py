"""Makes columns of Kafka's metadata: METADATA_COLUMNS, and the timestamp of records without one of their own."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import pyarrow as pa

from app.bad_records.dead_letter import HEADERS
from app.model import Headers, TopicPartition, known_timestamp

RESCUED_TIMESTAMP = "__kafka_timestamp"  # in _rescued_data: there __timestamp is the record's own field
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The years 1 to 9999. Producers set timestamps as they like, nanoseconds for instance, and readers know no others.
_READABLE_MS = range(-62_135_596_800_000, 253_402_300_800_000)


class Origin(Protocol):
    """Kafka's metadata of a record: its offset, its timestamp in ms or -1, its headers."""

    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def headers(self) -> Headers | None: ...


def metadata_columns(
    names: Sequence[str], rows: Sequence[Origin], tps: Sequence[TopicPartition]
) -> Mapping[str, pa.Array]:
    """The metadata columns that the user chose, each as long as ``rows``.

    Args:
        names: of ``METADATA_COLUMNS``.
        rows: as they came.
        tps: the topic-partition of each row.
    """
    return {name: METADATA[name](rows, tps) for name in names}


def lost_metadata(names: Sequence[str], rows: Sequence[Origin]) -> Mapping[str, Mapping[int, Any]]:
    """Values that the columns cannot store, by their name in ``_rescued_data`` and the row."""
    if "__timestamp" not in names:
        return {}
    stamps = ((row, known_timestamp(origin.timestamp)) for row, origin in enumerate(rows))
    lost = {row: ms for row, ms in stamps if ms is not None and ms not in _READABLE_MS}
    return {RESCUED_TIMESTAMP: lost} if lost else {}


def in_form_of(kind: pa.DataType | None, ms: int) -> Any:
    """Converts a Kafka timestamp (ms since the epoch) to a column's type; returns it unchanged if that is impossible.

    Then it does not fit the column, and is rescued as any other value.
    """
    if kind is None or pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return ms
    forms: tuple[tuple[Callable[[pa.DataType], bool], Callable[[datetime], Any]], ...] = (
        (pa.types.is_timestamp, lambda moment: moment if kind.tz else moment.replace(tzinfo=None)),
        (pa.types.is_date, lambda moment: moment.date()),
        (pa.types.is_string, lambda moment: moment.isoformat(timespec="milliseconds")),
    )
    try:
        moment = _EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        return ms
    return next((form(moment) for fits, form in forms if fits(kind)), ms)


def _timestamp(origin: Origin) -> int | None:
    ms = known_timestamp(origin.timestamp)
    return ms if ms is not None and ms in _READABLE_MS else None


def _headers(headers: Headers | None) -> list[dict[str, str | bytes | None]] | None:
    """Headers in the form of Spark's own Kafka source: in order, names may repeat."""
    if not headers:
        return None
    return [{"key": name, "value": value.encode() if isinstance(value, str) else value} for name, value in headers]


METADATA: Mapping[str, Callable[[Sequence[Origin], Sequence[TopicPartition]], pa.Array]] = {
    "__topic": lambda _, tps: pa.array([tp.topic for tp in tps], pa.string()),
    "__partition": lambda _, tps: pa.array([tp.partition for tp in tps], pa.int32()),
    "__offset": lambda rows, _: pa.array([row.offset for row in rows], pa.int64()),
    "__timestamp": lambda rows, _: (
        pa.array(map(_timestamp, rows), pa.int64()).cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC"))
    ),
    "__headers": lambda rows, _: pa.array([_headers(row.headers) for row in rows], HEADERS),
}
