"""Rows and batches with only what a test cares about."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from app.bad_records.refusals import BadRecords, OnBadRecord, ReadMessage
from app.convert.batch import BatchConverter, Schema
from app.convert.rows import Rules
from app.delivery.batch_limits import BatchLimits
from app.delivery.stage import Staged, Stager
from app.model import Batch, BatchPart, OffsetRange, Rejected, Row, TopicPartition
from app.table.existing_table import Computed
from app.table.layout import HIVE_NULL, UTC_ZONE, PartitionSpec
from tests.fakes.memory_schema import MemorySchema

TP = TopicPartition("sensors", 0)
NOON = 1_705_320_000_000  # 2024-01-15T12:00:00Z in ms
# A batch ends when a portion says so.
UNBOUNDED = BatchLimits(
    batch_size=2**40,
    target_file_bytes=2**40,
    gather_seconds=0.0,
    max_record_bytes=1_000_000,
    max_buffer_bytes=2**40,
    max_staged_bytes=2**40,
    max_sort_bytes=2**40,
)
OWNER = "0a1b2c3d4e5f607100000003"


def row(value: dict[str, Any], offset: int = 0, key: Any = None, timestamp: int = NOON) -> Row:
    return Row(value, key, timestamp, offset)


def part(tp: TopicPartition = TP, first: int = 0, last: int = 9, owner: str = OWNER, number: int = 0) -> BatchPart:
    return BatchPart(OffsetRange(tp, first, last), owner, number)


def batch(*values: dict[str, Any], tp: TopicPartition = TP, first: int = 0) -> Batch:
    return batch_of({tp: [row(value, first + index) for index, value in enumerate(values)]})


def batch_of(rows: dict[TopicPartition, list[Row]]) -> Batch:
    return Batch(tuple(part(tp, some[0].offset, some[-1].offset) for tp, some in rows.items()), tuple(rows.values()))


@dataclass(frozen=True)
class StagedBatch(Staged):
    """With the records in its dead letters."""

    rejected: tuple[Rejected, ...]


def stage(to: Stager, some: Batch, path: Path, number: int = 0) -> StagedBatch:
    opened, converted = to.open(number, path), to.convert(some, lambda work: work())
    opened.append(some, converted)
    staged, rejected = opened.close(), sorted(converted.rejected, key=lambda each: (each.tp, each.offset))
    assert sum(each.records for each in staged.dead_letters) == len(rejected)
    return StagedBatch(staged.parts, staged.file, staged.dead_letters, staged.rescued, tuple(rejected))


def spec(
    *columns: str, timestamp_column: str = "ts_ms", null_value: str = HIVE_NULL, time_zone: str = UTC_ZONE
) -> PartitionSpec:
    return PartitionSpec(columns, timestamp_column, null_value, time_zone=time_zone)


def stager(
    wanted: PartitionSpec,
    choice: OnBadRecord = "dead-letter",
    *,
    table_root: str = "data/t",
    schema: Schema | None = None,
    metadata: Sequence[str] = (),
    types: Mapping[str, pa.DataType] | None = None,
    read_message: ReadMessage | None = None,
    computed: Callable[[], Sequence[Computed]] = tuple,
) -> Stager:
    converter = BatchConverter(
        spec=wanted,
        table_root=table_root,
        schema=schema or MemorySchema(),
        rules=Rules(wanted.timestamp_column, frozenset(wanted.columns), types or {}),
        metadata=metadata,
        bad_records=BadRecords(choice, lambda _: None),
        read_message=read_message,
    )
    return Stager(converter, table_root, wanted, computed)
