"""The partition values of rows: what each kind of value becomes, and which rows share a file."""

import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.bad_records.refusals import BadRowsError
from app.convert.partition_values import group_ids, partition_columns
from app.table.layout import HIVE_NULL, QUIX_NULL, folder
from tests.support.batches import NOON, row, spec


def folders(values: list[dict[str, Any]], *columns: str, **options: str) -> list[str]:
    arrays = partition_columns([row(value) for value in values], spec(*columns, **options))
    rows = zip(*(array.to_pylist() for array in arrays), strict=True)
    return [folder(dict(zip(columns, found, strict=True))) for found in rows]


def refusals(values: list[dict[str, Any]], *columns: str) -> dict[int, str]:
    with pytest.raises(BadRowsError) as caught:
        folders(values, *columns)
    return {row: reason.whole for row, reason in caught.value.reasons.items()}


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("NYC", "x=NYC"),
        ("münchen ☃", "x=münchen ☃"),
        ("a/b", "x=a%2Fb"),
        ("..", "x=.."),
        (True, "x=True"),
        (False, "x=False"),
        (0, "x=0"),
        (2**63 - 1, "x=9223372036854775807"),
        (0.1, "x=0.1"),
        (1e30, "x=1e+30"),
        (math.inf, "x=inf"),
        (date(2024, 1, 5), "x=2024-01-05"),
        (datetime(2024, 1, 5, 6), "x=2024-01-05 06%3A00%3A00"),
        (b"abc", "x=abc"),
        (b"\xff/", "x=%5Cxff%2F"),
        ({"a": 1}, "x=%7B%27a%27%3A 1}"),
        ("", f"x={HIVE_NULL}"),
        (2**63, "x=9223372036854775808"),
        (Decimal("1E+3"), "x=1E+3"),
        (Decimal("sNaN"), f"x={HIVE_NULL}"),
        (bytearray(b"abc"), "x=abc"),
        ({"a": "\ud800"}, "x=%7B%27a%27%3A %27%5Cud800%27}"),
    ],
)
def test_each_kind_of_value_has_its_folder(value: object, name: str) -> None:
    assert folders([{"x": value}], "x") == [name]


@pytest.mark.parametrize("nothing", [{"x": None}, {}, {"x": math.nan}, {"x": ""}, {"x": {}}])
@pytest.mark.parametrize("null_value", [HIVE_NULL, QUIX_NULL])
def test_a_value_that_is_none_goes_to_the_null_folder(nothing: dict[str, Any], null_value: str) -> None:
    assert folders([nothing], "x", null_value=null_value) == [f"x={null_value}"]


RECORDS: tuple[dict[str, Any], ...] = (
    {},
    *(
        {"x": value}
        for value in (1, 2, 1.5, True, "1", "", None, math.nan, 2**70, b"\xff", b"1", [1], {}, {"a": 1}, {"b": 2})
    ),
    {"x": Decimal("1.50")},
    {"x": date(2024, 1, 5)},
)


@given(st.lists(st.sampled_from(RECORDS), min_size=1, max_size=6))
@example([{"x": "a"}, {}, {"x": "b"}])
@example([{"x": 1}, {"x": None}])
@example([{"x": 1.5}, {"x": math.nan}])
@example([{"x": {"a": 1}}, {"x": {"b": 2}}])
def test_a_folder_never_depends_on_the_other_records(values: list[Any]) -> None:
    assert folders(values, "x") == [folders([value], "x")[0] for value in values]


def test_text_that_is_not_unicode_is_reported_with_all_its_rows() -> None:
    reasons = refusals([{"x": "\ud800"}, {"x": "a"}, {}, {"x": "b\udfff"}], "x")
    assert list(reasons) == [0, 3]
    assert "partition column 'x' has a str that cannot become text" in reasons[0]
    reasons[0].encode()


def test_a_number_that_python_does_not_write_out_is_reported() -> None:
    assert "column 'x' has a int that cannot become text" in refusals([{"x": 1}, {"x": 10**5_000}], "x")[1]


def test_the_key_can_be_a_partition_column() -> None:
    rows = [row({"__key": "of the record"}, key="d1"), row({}, key=None), row({}, key=b"d2")]
    assert partition_columns(rows, spec("__key"))[0].to_pylist() == ["d1", HIVE_NULL, "d2"]


@pytest.mark.parametrize(
    ("value", "columns", "name"),
    [
        ({"ts_ms": "2024-02-03T04:30:00+02:00"}, "year month day hour", "year=2024/month=02/day=03/hour=02"),
        ({"place": "NYC", "ts_ms": NOON}, "month place year", "month=01/place=NYC/year=2024"),
        ({"year": 1999, "ts_ms": NOON}, "year", "year=2024"),
        ({}, "year month day hour", "year=2024/month=01/day=15/hour=12"),  # of Kafka's timestamp
        ({"ts_ms": 5}, "ts_ms", "ts_ms=5"),
        ({}, "ts_ms", f"ts_ms={NOON}"),
        ({"ts_ms": None}, "ts_ms", f"ts_ms={HIVE_NULL}"),
        ({"ts_ms": "yesterday", "x": 1}, "x", "x=1"),
    ],
)
def test_time_columns_are_parts_of_the_timestamp_in_utc(value: dict[str, Any], columns: str, name: str) -> None:
    assert folders([value], *columns.split()) == [name]


@pytest.mark.parametrize(
    ("moment", "zone", "name"),
    [
        ("2024-03-31T00:59:59Z", "Europe/Prague", "day=31/hour=01"),
        ("2024-03-31T01:00:00Z", "Europe/Prague", "day=31/hour=03"),  # a day of 23 hours
        ("2024-10-27T00:30:00Z", "Europe/Prague", "day=27/hour=02"),
        ("2024-10-27T01:30:00Z", "Europe/Prague", "day=27/hour=02"),  # and one of 25
        ("2024-10-27T22:59:59Z", "Europe/Prague", "day=27/hour=23"),
        ("2024-01-15T12:00:00+05:30", "Asia/Kolkata", "day=15/hour=12"),
        ("2024-01-15T12:00:00", "Asia/Kolkata", "day=15/hour=17"),  # a text without a zone stays UTC
        ("1850-01-01T00:00:00Z", "America/New_York", "day=31/hour=19"),
    ],
)
def test_time_columns_may_have_the_time_of_a_zone(moment: str, zone: str, name: str) -> None:
    assert folders([{"ts_ms": moment}], "day", "hour", time_zone=zone) == [name]


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ({"meta": {"region": "eu"}}, "eu"),
        ({"meta": {"region": 1.0}}, "1.0"),
        ({"meta.region": "own", "meta": {"region": "eu"}}, "own"),
        ({"meta.region": None, "meta": {"region": "eu"}}, "eu"),
        ({"meta.region": "", "meta": {"region": "eu"}}, HIVE_NULL),
        ({"region": "other"}, HIVE_NULL),
        *(({"meta": parent}, HIVE_NULL) for parent in (None, {}, [{"region": "eu"}], "eu", 1, {"region": None})),
    ],
)
def test_a_path_names_a_field_inside_objects_where_no_field_has_that_name(value: dict[str, Any], name: str) -> None:
    others: list[dict[str, Any]] = [{}, {"meta": {"region": "us"}}]
    assert folders([value, *others], "meta.region") == [f"meta.region={each}" for each in (name, HIVE_NULL, "us")]


def test_time_columns_come_from_the_configured_column() -> None:
    value = {"ts_ms": 0, "when": NOON}
    assert folders([value], "year", "hour", timestamp_column="when") == ["year=2024/hour=12"]


@pytest.mark.parametrize("others", [[], [{"ts_ms": NOON}]])
def test_a_null_timestamp_goes_to_the_null_folder(others: list[dict[str, Any]]) -> None:
    assert folders([{"ts_ms": None}, *others], "year", "hour")[0] == f"year={HIVE_NULL}/hour={HIVE_NULL}"


@pytest.mark.parametrize("others", [[], [{"ts_ms": "2024-01-15T00:00:00Z"}], [{"ts_ms": None}]])
def test_a_record_without_a_timestamp_takes_the_one_of_kafka_whatever_the_others_have(
    others: list[dict[str, Any]],
) -> None:
    assert folders([{}, *others], "year", "hour")[0] == "year=2024/hour=12"


def test_without_any_timestamp_there_is_no_folder_unless_the_record_says_null() -> None:
    rows = [row({"ts_ms": None}, timestamp=-1), row({}, timestamp=-1), row({"ts_ms": NOON}, timestamp=-1), row({})]
    with pytest.raises(BadRowsError) as caught:
        partition_columns(rows, spec("year"))
    assert caught.value.reasons == {1: "it has no 'ts_ms', and its Kafka message has no timestamp"}


def test_bad_rows_of_all_columns_are_reported_at_once_in_their_order() -> None:
    values: list[dict[str, Any]] = [
        {"x": "\ud800"},
        {"ts_ms": "2024-01-01"},
        {"ts_ms": "yesterday", "x": "\ud800"},
        {"ts_ms": True},
    ]
    reasons = refusals(values, "x", "year")
    assert list(reasons) == [0, 2, 3]
    assert "cannot become text" in reasons[0]
    assert "no timestamp such as" in reasons[2]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc"), st.integers(0, 3)), min_size=1))
@example([("a-b", "c", 0), ("a", "b-c", 0), ("a", "", 0), ("", "a", 0), ("a-b", "c", 0)])  # alike when joined
def test_numbers_stand_for_the_distinct_tuples_in_the_order_they_are_first_seen(
    rows: list[tuple[str, str, int]],
) -> None:
    seen = list(dict.fromkeys(rows))
    columns = [pa.array(column) for column in zip(*rows, strict=True)]
    assert group_ids(columns).to_pylist() == [seen.index(values) for values in rows]
