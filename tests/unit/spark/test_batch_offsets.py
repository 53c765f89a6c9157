"""The offsets of a batch in a footer: how they look, and what is no such thing."""

import json

import pytest

from app.model import OffsetRange, TopicPartition
from app.spark.batch_offsets import as_column_metadata, read_batch_offsets

OFFSETS = (
    OffsetRange(TopicPartition("alerts", 11), 2**63 - 2, 2**63 - 1),
    OffsetRange(TopicPartition("sensors.raw", 2), 7, 7),
    OffsetRange(TopicPartition("sensors.raw", 10), 0, 9),
)


def footer(*columns: object) -> dict[bytes, bytes]:
    row = {"type": "struct", "fields": [{"name": "n", "metadata": noted} for noted in columns]}
    return {b"org.apache.spark.sql.parquet.row.metadata": json.dumps(row).encode()}


def test_they_are_by_topic_and_partition() -> None:
    assert as_column_metadata(OFFSETS[1:]) == {"kafka_offsets": {"sensors.raw": {"2": [7, 7], "10": [0, 9]}}}


def test_they_are_read_back_at_any_column_and_sorted() -> None:
    assert read_batch_offsets(footer({}, {"comment": "°C"}, as_column_metadata(reversed(OFFSETS)))) == OFFSETS


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        {b"ARROW:schema": b"x"},
        {b"org.apache.spark.sql.parquet.row.metadata": b"no JSON"},
        {b"org.apache.spark.sql.parquet.row.metadata": b"\xff"},
        {b"org.apache.spark.sql.parquet.row.metadata": b'{"fields": [1]}'},
        footer(),
        footer({"kafka_offsets": []}),
        footer({"kafka_offsets": {"t": {"0": [1]}}}),
        footer({"kafka_offsets": {"t": {"x": [1, 2]}}}),
        footer(as_column_metadata(OFFSETS), as_column_metadata(OFFSETS)),  # of two files that somebody has joined
    ],
)
def test_other_footers_have_none(metadata: dict[bytes, bytes] | None) -> None:
    assert read_batch_offsets(metadata) == ()
