"""Thousands of odd messages both ways: no exception, no record lost, and readers take the files."""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.kafka_message import KafkaMessage
from tests.support.both_ways import MAX_RECORD_BYTES, StagingStep, Table, assert_both_agree, messages

METADATA = ("__topic", "__partition", "__offset", "__timestamp", "__headers")
TABLES = (
    Table(("place", "year"), metadata=METADATA),
    Table(("__key", "~x"), types="x:string,d:timestamp", metadata=METADATA),
    Table(("x",), timestamp="d", types="i:decimal(10,2),o:struct<a:string>"),
)
NAMES = st.sampled_from(["x", "d", "i", "o", "place", "year", "a", "A", "", "ts_ms", "__key", "_rescued_data", "ü.n"])
NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70),
    st.sampled_from([0, -1, 2**63, 2**53 + 1, 10**18, 10**400]),
    st.floats(allow_nan=False, allow_infinity=False),
)
TEXTS = st.one_of(
    st.text(max_size=8),
    st.sampled_from(["2024-01-15T12:00:00Z", "0000-01-01", "9999-12-31T23:59:59.999999-23:59", "T0" * 400, "\ud800"]),
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=8,
)
DEEP = st.integers(1, 300).flatmap(
    lambda levels: st.sampled_from(["[" * levels + "]" * levels, '{"a":' * levels + "1" + "}" * levels, "[" * levels])
)
VALUE = st.one_of(
    st.dictionaries(NAMES, VALUES, max_size=5).map(lambda value: json.dumps(value).encode()),
    st.builds(lambda name, deep: f'{{"{name}":{deep}}}'.encode(), st.sampled_from(["x", "o", "new"]), DEEP),
    st.sampled_from([None, b"", b"null", b"[]", b"{", b'{"x":NaN}', b'{"x":1e999}', b'{"x":-0}', b'{"x":1,"x":2}']),
    st.just(b'{"x":"' + b"y" * MAX_RECORD_BYTES + b'"}'),
    st.binary(max_size=6),
)
KEYS = st.one_of(st.none(), st.binary(max_size=4), st.just(b"k" * (MAX_RECORD_BYTES + 1)), st.just("ü".encode()))
STAMPS = st.one_of(
    st.sampled_from(
        [-1, 0, -2, 1_705_320_000_000, 1_705_320_000_000_000_000, 2**63 - 1, -(2**63), 253_402_300_799_999]
    ),
    st.integers(-(2**63), 2**63 - 1),
)
HEADERS = st.one_of(
    st.none(),
    st.lists(st.tuples(st.text(max_size=3, alphabet="aü"), st.binary(max_size=3)), max_size=3),
    st.just([("h", b"v")] * 1_000),
)
BATCH = st.lists(st.tuples(VALUE, KEYS, STAMPS, HEADERS), min_size=1, max_size=8).map(
    lambda many: [KafkaMessage(v, k, at, timestamp_ms=t, raw_headers=h) for at, (v, k, t, h) in enumerate(many)]
)


@given(st.sampled_from(TABLES), st.lists(BATCH, min_size=1, max_size=3))
def test_both_ways_take_any_message(table: Table, batches: list[list[KafkaMessage]]) -> None:
    assert_both_agree(table, batches)


@pytest.mark.parametrize("metadata", [(), METADATA], ids=["no metadata", "all metadata"])
def test_a_message_whose_headers_make_it_too_big_is_no_row_either_way(metadata: tuple[str, ...], path: Path) -> None:
    too_many = [("h" * 100, b"v" * 100)] * (MAX_RECORD_BYTES // 200 + 1)
    batch = [KafkaMessage(b'{"x":"1"}', at=at, raw_headers=its) for at, its in enumerate([None, too_many, None])]
    assert_both_agree(Table(metadata=metadata), [messages(b'{"x":"1"}'), batch])
    staged = StagingStep(Table(metadata=metadata), at_once=True).stage(batch, path)
    assert [record.offset for _, records in staged.rejected for record in records] == [1]


@given(st.sampled_from(TABLES), BATCH)
def test_no_record_is_lost_and_readers_take_what_is_written(table: Table, batch: list[KafkaMessage]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "staged.parquet"
        staged = StagingStep(table, at_once=True).stage(batch, path)
        rows = 0
        if staged.file is not None:
            rows = pq.read_metadata(path).num_rows
            assert len(pq.read_table(path).to_pylist()) == rows
            assert len(pl.read_parquet(path)) == rows
            with duckdb.connect() as connection:
                assert len(connection.sql(f"SELECT * FROM '{path}'").to_arrow_table()) == rows  # noqa: S608 - our own file
        assert rows + sum(len(records) for _, records in staged.rejected) == len(batch)


def _timestamps(stamps: Sequence[int], path: Path, *, at_once: bool) -> list[dict[str, Any]]:
    step = StagingStep(Table(metadata=("__timestamp",)), at_once=at_once)
    batch = [KafkaMessage(b'{"x":1}', at=at, timestamp_ms=ms) for at, ms in enumerate(stamps)]
    assert step.stage(messages(b'{"x":1,"ts_ms":5}'), path).rejected == ()
    staged = step.stage(batch, path)
    assert staged.rejected == ()
    rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return rows


@pytest.mark.parametrize("at_once", [True, False])
def test_a_kafka_timestamp_that_readers_do_not_know_is_rescued_and_the_row_arrives(path: Path, at_once: bool) -> None:
    nanoseconds, later = 1_705_320_000_000_000_000, 253_402_300_800_000
    rows = _timestamps([1_705_320_000_000, nanoseconds, later, -62_135_596_800_001], path, at_once=at_once)
    assert [row["__timestamp"] and row["__timestamp"].year for row in rows] == [2024, None, None, None]
    rescued = [row["_rescued_data"] and json.loads(row["_rescued_data"]) for row in rows]
    assert rescued[:2] == [None, {"__kafka_timestamp": nanoseconds}]
    assert [row["ts_ms"] for row in rows[1:3]] == [nanoseconds, later]


@pytest.mark.parametrize("at_once", [True, False])
def test_a_kafka_timestamp_is_rescued_beside_a_field_of_that_name(path: Path, at_once: bool) -> None:
    step = StagingStep(Table(metadata=("__timestamp",)), at_once=at_once)
    step.stage(messages(b'{"__kafka_timestamp":1,"ts_ms":1}'), path)
    step.stage([KafkaMessage(b'{"__kafka_timestamp":"x","ts_ms":1}', at=1, timestamp_ms=2**60)], path)
    (text,) = pq.read_table(path)["_rescued_data"].to_pylist()
    assert json.loads(text) == {"__kafka_timestamp": "x", "___kafka_timestamp": 2**60}


def test_a_kafka_timestamp_is_not_rescued_where_folders_have_the_field_of_its_column() -> None:
    table = Table(("__timestamp",), metadata=("__timestamp",))
    odd = KafkaMessage(b'{"ts_ms":1,"__timestamp":"q"}', at=1, timestamp_ms=2**60)
    assert_both_agree(table, [messages(b'{"ts_ms":1}'), [odd]])


def test_headers_make_a_message_too_big_both_ways() -> None:
    table = Table(metadata=("__headers",))
    first = messages(b'{"ts_ms":1,"x":1}', raw_headers=[("h", b"1")])
    for size in (MAX_RECORD_BYTES - 18, MAX_RECORD_BYTES - 17, MAX_RECORD_BYTES):
        heavy = messages(b'{"ts_ms":1,"x":1}', b'{"ts_ms":1,"x":2}', first=1, raw_headers=[("h", b"v" * size)])
        assert_both_agree(table, [first, heavy])


def test_timestamps_at_the_ends_of_the_calendar_are_read(path: Path) -> None:
    rows = _timestamps([-62_135_596_800_000, 253_402_300_799_999], path, at_once=True)
    assert [row["__timestamp"].year for row in rows] == [1, 9999]
    assert pa.types.is_timestamp(pq.read_schema(path).field("__timestamp").type)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "staged.parquet"
