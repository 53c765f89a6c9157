"""Reads from a file's name and footer which batches wrote its rows: for ``audit``, and for ``compact`` to copy."""

import base64
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from app.spark.batch_offsets import read_batch_offsets, read_column_metadata
from app.table.layout import is_merged, part_of, shared_file_of, topic_in_names


class Part(NamedTuple):
    """The offsets ``first`` to ``last`` of a topic-partition in a batch. The topic is spelled as in file names."""

    topic: str
    partition: int
    first: int
    last: int
    owner: str
    number: int

    @property
    def batch(self) -> str:
        """The batch's name, which is the end of a file's name, before ``.parquet``."""
        return f"{self.owner}-{self.number}"


_KINDS = (pa.string(), pa.int32(), pa.int64(), pa.int64(), pa.string(), pa.int64())
_PARTS: Final = pa.schema(zip(Part._fields, _KINDS, strict=True))
_BATCHES: Final = "kafka_batches"


def batches_in(key: str, footer: Mapping[bytes, bytes] | None) -> Sequence[Part]:
    """Return the parts of batches in a file. If another program has written the file, the result is empty."""
    if part := named_part(key):
        return [part]
    if shared := shared_file_of(key.rpartition("/")[2]):
        return [
            Part(topic_in_names(offsets.tp.topic), offsets.tp.partition, offsets.first, offsets.last, *shared)
            for offsets in read_batch_offsets(footer)
        ]
    return _read(footer) if is_merged(key) else []


def named_part(key: str) -> Part | None:
    """Return the part that a file's name contains; ``None`` if the name does not describe one topic-partition."""
    part = part_of(key.rpartition("/")[2])
    if part is None:
        return None
    return Part(*part.offsets.tp, part.offsets.first, part.offsets.last, part.owner, part.number)


def as_merged_metadata(files: Sequence[tuple[str, Mapping[bytes, bytes] | None]]) -> dict[str, str]:
    """Return metadata that lists the offsets of a merged file's batches, as a small Parquet file in Base64.

    ``files`` are the keys and footers of the inputs. If the table has no folders, each batch has only one file.
    Therefore, offsets that touch become one part, with the name of the first batch.
    """
    parts: list[Part] = []
    for part in sorted({part for file in files for part in batches_in(*file)}):
        if parts and parts[-1][:2] == part[:2] and parts[-1].last + 1 == part.first and "=" not in files[0][0]:
            parts[-1] = parts[-1]._replace(last=part.last)
        else:
            parts.append(part)
    body = BytesIO()
    pq.write_table(pa.Table.from_pylist([part._asdict() for part in parts], _PARTS), body)
    return {_BATCHES: base64.b64encode(body.getvalue()).decode()}


def _read(footer: Mapping[bytes, bytes] | None) -> Sequence[Part]:
    try:
        text = (footer or {}).get(_BATCHES.encode()) or read_column_metadata(footer, _BATCHES)
        table = pq.ParquetFile(BytesIO(base64.b64decode(text, validate=True))).read().select(_PARTS.names).cast(_PARTS)
    except (ValueError, TypeError, KeyError, AttributeError, pa.ArrowException):
        return []  # another program has written the metadata
    return [*map(Part, *table.to_pydict().values())]
