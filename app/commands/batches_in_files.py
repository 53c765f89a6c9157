"""Which batches' rows are in a file, by its name and its footer. ``audit`` reads it, ``compact`` passes it on."""

import base64
from collections.abc import Iterable, Mapping
from io import BytesIO
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from app.spark.batch_offsets import read_batch_offsets, read_column_metadata
from app.table.layout import is_merged, part_of, shared_file_of, topic_in_names


class Part(NamedTuple):
    """A batch has the offsets from ``first`` to ``last`` of a topic-partition; a topic is as file names have it."""

    topic: str
    partition: int
    first: int
    last: int
    owner: str
    number: int


_KINDS = (pa.string(), pa.int32(), pa.int64(), pa.int64(), pa.string(), pa.int64())
PARTS: Final = pa.schema(zip(Part._fields, _KINDS, strict=True))
_BATCHES: Final = "kafka_batches"


def batches_in(key: str, footer: Mapping[bytes, bytes] | None) -> pa.Table:
    """The batches, as ``PARTS``; empty for a file of another program."""
    if part := named_part(key):
        return _table([part])
    if shared := shared_file_of(key.rpartition("/")[2]):
        return _table(
            Part(topic_in_names(each.tp.topic), each.tp.partition, each.first, each.last, shared.owner, shared.number)
            for each in read_batch_offsets(footer)
        )
    return _read(footer) if is_merged(key) else PARTS.empty_table()


def named_part(key: str) -> Part | None:
    """The part of a batch that is in the name of a file of one topic-partition; ``None`` for any other name."""
    found = part_of(key.rpartition("/")[2])
    if found is None:
        return None
    return Part(*found.offsets.tp, found.offsets.first, found.offsets.last, found.owner, found.number)


def as_merged_metadata(batches: Iterable[pa.Table]) -> dict[str, str]:
    """The metadata of a column in the footer of a merged file: the batches, as a Parquet file in base64."""
    table = pa.concat_tables([PARTS.empty_table(), *batches])
    body = BytesIO()
    pq.write_table(
        table.group_by(PARTS.names).aggregate([]).sort_by([(name, "ascending") for name in PARTS.names]), body
    )
    return {_BATCHES: base64.b64encode(body.getvalue()).decode()}


def _read(footer: Mapping[bytes, bytes] | None) -> pa.Table:
    try:
        body = base64.b64decode(read_column_metadata(footer, _BATCHES), validate=True)
        return pq.ParquetFile(BytesIO(body)).read().select(PARTS.names).cast(PARTS)
    except (ValueError, TypeError, KeyError, AttributeError, pa.ArrowException):
        return PARTS.empty_table()  # metadata of another program


def _table(parts: Iterable[Part]) -> pa.Table:
    return pa.Table.from_pylist([part._asdict() for part in parts], PARTS)
