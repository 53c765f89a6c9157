"""Odd values have one outcome, whatever is beside them and whichever way their messages are converted."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.batches import NOON
from tests.support.both_ways import Table
from tests.unit.convert.conversions import both_ways, staged

# --- moments that Arrow knows and Python does not -------------------------------------------------------------------


@both_ways
@pytest.mark.parametrize("neighbour", ["2024-01-15", "soon"])
@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("date", "0000-01-01"),
        ("date", "0000-12-31"),
        ("timestamp", "0000-01-01T00:00:00Z"),
        ("timestamp", "0000-12-31T23:59:59"),
        ("timestamp", "0001-01-01T00:00:00+00:01"),
        ("timestamp", "9999-12-31T23:59:59.999999-00:01"),
        ("timestamp_ntz", "0000-06-01T00:00:00"),
    ],
)
def test_a_moment_outside_the_years_1_to_9999_is_rescued_whatever_is_beside_it(
    tmp_path: Path, kind: str, text: str, neighbour: str, at_once: bool
) -> None:
    table = Table(types=f"x:{kind}")
    other = f'{{"x":"{neighbour}"}}'
    for texts in ([f'{{"x":"{text}"}}', other], [other, f'{{"x":"{text}"}}'], [f'{{"x":"{text}"}}'] * 2):
        rows, *_ = staged(tmp_path, table, *texts, at_once=at_once)
        odd = [row for row in rows if row["rescued"].get("x") == text]
        assert len(odd) == "".join(texts).count(text)
        assert all(row.get("x") is None for row in odd)


@both_ways
@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        ("date", ["0001-01-01", "9999-12-31"]),
        ("timestamp", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"]),
        ("timestamp_ntz", ["0001-01-01T00:00:00", "9999-12-31T23:59:59.999999"]),
    ],
)
def test_the_first_and_the_last_moment_are_stored(tmp_path: Path, kind: str, texts: list[str], at_once: bool) -> None:
    rows, *_ = staged(tmp_path, Table(types=f"x:{kind}"), *(f'{{"x":"{text}"}}' for text in texts), at_once=at_once)
    assert [row["x"].isoformat()[:10] for row in rows] == ["0001-01-01", "9999-12-31"]
    assert not any(row["rescued"] for row in rows)


# --- what comes from Kafka and not from the record ------------------------------------------------------------------


@both_ways
@pytest.mark.parametrize("field", ['"mine"', '{"a":[1]}'])
def test_a_key_that_fits_no_column_takes_the_place_of_no_rescued_value(
    tmp_path: Path, field: str, at_once: bool
) -> None:
    schema = {"__key": pa.int64(), "__kafka_key": pa.bool_(), "___kafka_key": pa.bool_(), "ts_ms": pa.int64()}
    text = f'{{"__kafka_key":{field},"___kafka_key":"too","ts_ms":1}}'
    rows, *_ = staged(tmp_path, Table(), text, '{"ts_ms":1}', at_once=at_once, schema=schema, raw_key=b"k")
    assert [row["rescued"] for row in rows] == [
        {"__kafka_key": json.loads(field), "___kafka_key": "too", "____kafka_key": "k"},
        {"__kafka_key": "k"},
    ]


@both_ways
def test_a_new_field_that_finds_no_place_and_the_key_are_both_kept(tmp_path: Path, at_once: bool) -> None:
    schema = {"__key": pa.int64(), "__Kafka_Key": pa.bool_(), "ts_ms": pa.int64()}
    rows, *_ = staged(tmp_path, Table(), '{"__kafka_key":1,"ts_ms":1}', at_once=at_once, schema=schema, raw_key=b"k")
    assert [row["rescued"] for row in rows] == [{"__kafka_key": 1, "___kafka_key": "k"}]


@both_ways
def test_metadata_that_fits_no_column_takes_the_place_of_no_rescued_value(tmp_path: Path, at_once: bool) -> None:
    schema = {"__offset": pa.bool_(), "ts_ms": pa.int64()}
    table = Table(metadata=("__offset",))
    rows, *_ = staged(tmp_path, table, '{"__offset":"mine","ts_ms":1}', '{"ts_ms":1}', at_once=at_once, schema=schema)
    assert [row["rescued"] for row in rows] == [{"__offset": "mine", "___offset": 0}, {"__offset": 1}]


@both_ways
@pytest.mark.parametrize(
    "kind",
    [pa.bool_(), pa.binary(), pa.int32(), pa.list_(pa.int64()), pa.struct({"a": pa.int64()}), pa.decimal128(5, 2)],
)
def test_a_kafka_timestamp_that_the_timestamp_column_does_not_take_is_rescued(
    tmp_path: Path, kind: pa.DataType, at_once: bool
) -> None:
    rows, folders, _ = staged(tmp_path, Table(("year",)), '{"x":1}', '{"x":2}', at_once=at_once, schema={"ts_ms": kind})
    assert [row["rescued"] for row in rows] == [{"ts_ms": NOON}] * 2
    assert folders == [{"year": "2024"}]


@both_ways
@pytest.mark.parametrize("moment", [2**53 + 1, 253_402_300_800_000])
def test_a_kafka_timestamp_beyond_what_its_column_holds_is_rescued(tmp_path: Path, moment: int, at_once: bool) -> None:
    for kind in (pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.date32()):
        rows, *_ = staged(tmp_path, Table(), '{"x":1}', at_once=at_once, schema={"ts_ms": kind}, timestamp_ms=moment)
        assert [row["rescued"] for row in rows] == [{"ts_ms": moment}]


# --- partition values -----------------------------------------------------------------------------------------------


@both_ways
@pytest.mark.parametrize("value", ["{}", '{"x":null}', '{"x":{"y":null},"z":{}}'])
def test_an_object_without_any_value_is_null_in_folders_as_it_is_in_columns(
    tmp_path: Path, value: str, at_once: bool
) -> None:
    _, folders, _ = staged(tmp_path, Table(("p",)), f'{{"p":{value},"n":1}}', '{"p":null,"n":2}', at_once=at_once)
    assert folders == [{"p": "__HIVE_DEFAULT_PARTITION__"}]
