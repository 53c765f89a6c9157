"""Odd messages: no exception, no record lost, and readers take the files."""

import json
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.convert.scalars import ZONED
from tests.fakes.kafka_message import KafkaMessage
from tests.support import odd_json
from tests.support.both_ways import StagingStep, Table, assert_both_agree, messages
from tests.unit.convert.conversions import both_ways, staged

METADATA = ("__topic", "__partition", "__offset", "__timestamp", "__headers")
TABLES = (
    Table(("place", "year"), metadata=METADATA),
    Table(("__key", "~x"), types="x:string,d:timestamp", metadata=METADATA),
    Table(("x",), timestamp="d", types="i:decimal(10,2),o:struct<a:string>"),
)


@given(st.sampled_from(TABLES), odd_json.batches(odd_json.RECORDS, most=1))
def test_no_record_is_lost_and_readers_take_what_is_written(table: Table, batches: list[list[KafkaMessage]]) -> None:
    [batch] = batches
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "staged.parquet"
        found = StagingStep(table, at_once=True).stage(batch, path)
        rows = 0
        if found.file is not None:
            rows = pq.read_metadata(path).num_rows
            assert len(pq.read_table(path).to_pylist()) == rows
            assert len(pl.read_parquet(path)) == rows
            with duckdb.connect() as connection:
                assert len(connection.sql(f"SELECT * FROM '{path}'").to_arrow_table()) == rows  # noqa: S608 - our own file
        assert rows + len(found.rejected) == len(batch)


def _timestamps(stamps: Sequence[int], path: Path, *, at_once: bool) -> list[dict[str, Any]]:
    step = StagingStep(Table(metadata=("__timestamp",)), at_once=at_once)
    batch = [KafkaMessage(b'{"x":1}', at=at, timestamp_ms=ms) for at, ms in enumerate(stamps)]
    assert step.stage(messages(b'{"x":1,"ts_ms":5}'), path).rejected == ()
    assert step.stage(batch, path).rejected == ()
    rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return rows


@both_ways
def test_a_kafka_timestamp_that_readers_do_not_know_is_rescued_and_the_row_arrives(path: Path, at_once: bool) -> None:
    nanoseconds, later = 1_705_320_000_000_000_000, 253_402_300_800_000
    rows = _timestamps([1_705_320_000_000, nanoseconds, later, -62_135_596_800_001], path, at_once=at_once)
    assert [row["__timestamp"] and row["__timestamp"].year for row in rows] == [2024, None, None, None]
    rescued = [row["_rescued_data"] and json.loads(row["_rescued_data"]) for row in rows]
    assert rescued[:2] == [None, {"__kafka_timestamp": nanoseconds}]
    assert [row["ts_ms"] for row in rows[1:3]] == [nanoseconds, later]


@both_ways
def test_a_kafka_timestamp_is_rescued_beside_a_field_of_that_name(tmp_path: Path, at_once: bool) -> None:
    text = '{"__kafka_timestamp":"x","ts_ms":1}'
    schema = {"__kafka_timestamp": pa.int64(), "ts_ms": pa.int64()}
    table = Table(metadata=("__timestamp",))
    [row], *_ = staged(tmp_path, table, text, at_once=at_once, schema=schema, timestamp_ms=2**60)
    assert row["rescued"] == {"__kafka_timestamp": "x", "___kafka_timestamp": 2**60}


def test_a_kafka_timestamp_is_not_rescued_where_folders_have_the_field_of_its_column() -> None:
    table = Table(("__timestamp",), metadata=("__timestamp",))
    odd = KafkaMessage(b'{"ts_ms":1,"__timestamp":"q"}', at=1, timestamp_ms=2**60)
    assert_both_agree(table, [messages(b'{"ts_ms":1}'), [odd]])


@both_ways
@pytest.mark.parametrize("table", [Table(), Table(timestamp="__timestamp", metadata=("__timestamp",))])
@pytest.mark.parametrize(
    ("ms", "day"),
    [
        (0, "1970-01-01"),
        (86_400_000, "1970-01-02"),
        (864_000_000, "1970-01-11"),
        (-86_400_000, "1969-12-31"),
        (-62_135_596_800_000, "0001-01-01"),
        (253_402_300_799_999, "9999-12-31"),
    ],
)
def test_a_kafka_timestamp_is_milliseconds_whatever_its_size(
    tmp_path: Path, table: Table, ms: int, day: str, at_once: bool
) -> None:
    table = replace(table, hive=("year", "month", "day"), timestamp_as="at")
    schema = {"seq": pa.int64(), "ts_ms": pa.int64(), "at": ZONED, "__timestamp": ZONED}
    [row], [folder], _ = staged(tmp_path, table, '{"seq":1}', at_once=at_once, schema=schema, timestamp_ms=ms)
    assert "-".join(folder.values()) == day
    assert [f"{row[name]:%4Y-%m-%d}" for name in ("at", *table.metadata)] == [day] * (1 + len(table.metadata))


@both_ways
@pytest.mark.parametrize("ms", [253_402_300_800_000, -62_135_596_800_001, 1_705_320_000 * 10**9, 2**63 - 1])
def test_a_kafka_timestamp_outside_the_calendar_is_bad_only_where_it_names_a_folder(
    path: Path, ms: int, at_once: bool
) -> None:
    for hive, is_bad in ((("year",), True), (("seq",), False)):
        step = StagingStep(Table(hive, timestamp_as="at"), at_once=at_once)
        found = step.stage(messages(b'{"seq":1}', timestamp_ms=ms), path)
        assert len(found.rejected) == is_bad
        assert all(str(each.reason).endswith("the years 1 to 9999 (Kafka's timestamp)") for each in found.rejected)
        assert is_bad or pq.read_table(path)["ts_ms"].to_pylist() == [ms]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "staged.parquet"
