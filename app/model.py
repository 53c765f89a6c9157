"""The values that travel through the connector. All frozen: a batch handed on is never changed behind its back."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple


class TopicPartition(NamedTuple):
    """One partition of one Kafka topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]"


class Row(NamedTuple):
    """One record as the sink got it: the decoded value and key, the Kafka timestamp (ms since the epoch) and offset."""

    value: dict[str, Any]
    key: Any
    timestamp: int
    offset: int


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets ``first`` to ``last``, both included, of one topic-partition."""

    tp: TopicPartition
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A Parquet file in the store, as the catalog gets to know it.

    ``partition_values`` are unescaped strings in the order of the partition spec; ``size`` is in bytes.
    """

    key: str
    uri: str
    size: int
    rows: int
    partition_values: Mapping[str, str]
    last_modified: datetime


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A Parquet file in the scratch folder that Spark has written and that waits for its upload."""

    path: Path
    size: int
    rows: int
    partition_values: Mapping[str, str]
    offsets: OffsetRange
