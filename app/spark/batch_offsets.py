"""The offsets of a batch in the footers of its files, for files without offsets in their names.

Spark stores a column's metadata in the footer, in the JSON of ``org.apache.spark.sql.parquet.row.metadata``. The first
column has them: ``{"kafka_offsets": {"readings": {"0": [1000, 2999], "1": [980, 2999]}}}``.
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
    for each in offsets:
        by_topic.setdefault(each.tp.topic, {})[str(each.tp.partition)] = [each.first, each.last]
    return {_OFFSETS: by_topic}


def read_batch_offsets(footer: Mapping[bytes, bytes] | None) -> tuple[OffsetRange, ...]:
    """Reads a batch's offsets from a Parquet footer, by topic and partition; empty for a file without them."""
    try:
        found = [
            OffsetRange(TopicPartition(topic, int(partition)), int(first), int(last))
            for topic, partitions in read_column_metadata(footer, _OFFSETS).items()
            for partition, (first, last) in partitions.items()
        ]
    except (ValueError, TypeError, KeyError, AttributeError):
        return ()  # metadata of another program
    return tuple(sorted(found, key=lambda each: each.tp))


def read_column_metadata(footer: Mapping[bytes, bytes] | None, name: str) -> Any:
    """Reads the metadata of this name, which one column has.

    Raises:
        ValueError, TypeError, KeyError, AttributeError: no column has it, or several; or another program wrote it.
    """
    fields = json.loads((footer or {}).get(ROW_METADATA, b"{}"))["fields"]
    [found] = [field["metadata"][name] for field in fields if name in field["metadata"]]
    return found
