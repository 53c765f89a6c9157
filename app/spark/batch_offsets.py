"""Stores the offsets of a batch in the footers of files whose names contain no offsets.

Spark stores a column's metadata in the footer, in the JSON of ``org.apache.spark.sql.parquet.row.metadata``. The first
column's metadata contains the offsets: ``{"kafka_offsets": {"readings": {"0": [1000, 2999], "1": [980, 2999]}}}``.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from app.model import OffsetRange, TopicPartition

ROW_METADATA: Final = b"org.apache.spark.sql.parquet.row.metadata"
_OFFSETS: Final = "kafka_offsets"


def as_column_metadata(offsets: Iterable[OffsetRange]) -> dict[str, Any]:
    """Returns the column metadata that Spark stores in the footer."""
    by_topic: dict[str, dict[str, list[int]]] = {}
    for tp, first, last in ((part.tp, part.first, part.last) for part in offsets):
        by_topic.setdefault(tp.topic, {})[str(tp.partition)] = [first, last]
    return {_OFFSETS: by_topic}


def read_batch_offsets(footer: Mapping[bytes, bytes] | None) -> tuple[OffsetRange, ...]:
    """Reads a batch's offsets from a Parquet footer, by topic and partition; empty for a file without offsets."""
    try:
        ranges = [
            OffsetRange(TopicPartition(topic, int(partition)), int(first), int(last))
            for topic, partitions in read_column_metadata(footer, _OFFSETS).items()
            for partition, (first, last) in partitions.items()
        ]
    except (ValueError, TypeError, KeyError, AttributeError):
        return ()  # metadata of another program
    return tuple(sorted(ranges, key=lambda offsets: offsets.tp))


def read_column_metadata(footer: Mapping[bytes, bytes] | None, name: str) -> Any:
    """Reads the metadata with this name from the only column that has it.

    Raises:
        ValueError, TypeError, KeyError, AttributeError: no column has it, several have it, or another program wrote it.
    """
    fields = json.loads((footer or {}).get(ROW_METADATA, b"{}"))["fields"]
    [metadata] = [field["metadata"][name] for field in fields if name in field["metadata"]]
    return metadata
