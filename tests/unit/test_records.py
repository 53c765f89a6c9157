"""Rows as they came become columns, and what cannot names its row."""

import math
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from app.model import Row
from app.records import to_table
from app.timestamps import BadValueError
from tests.unit.batches import NOON, row


def table(*values: dict[str, Any], timestamp_column: str = "ts_ms") -> pa.Table:
    return to_table([row(value) for value in values], timestamp_column)


def column(*values: dict[str, Any], name: str = "x") -> list[Any]:
    """What is stored of the field ``x``."""
    stored: list[Any] = table(*values).column(name).to_pylist()
    return stored


def kind(*values: dict[str, Any], name: str = "x") -> str:
    return str(table(*values).schema.field(name).type)


def refused(rows: list[Row]) -> BadValueError:
    with pytest.raises(BadValueError) as caught:
        to_table(rows, "ts_ms")
    return caught.value


# --- columns --------------------------------------------------------------------------------------------------------


def test_columns_are_the_union_of_all_fields_in_the_order_they_are_first_seen() -> None:
    stored = to_table([row({"b": 1}, key="k"), row({"a": 2, "b": 3}), row({"Z": 4, "ts_ms": 5, "c": 6})], "ts_ms")
    assert stored.column_names == ["b", "a", "Z", "ts_ms", "c", "__key"]


def test_rows_keep_their_order() -> None:
    assert column(*({"x": number} for number in (3, 1, 2))) == [3, 1, 2]


def test_a_field_that_is_missing_or_null_is_null_and_whole_numbers_stay_whole() -> None:
    values: list[dict[str, Any]] = [{"x": 1}, {"x": None}, {}, {"x": 2}]
    assert column(*values) == [1, None, None, 2]
    assert kind(*values) == "int64"


def test_a_column_without_any_value_is_left_out() -> None:
    assert table({"x": None, "y": 1}, {"x": None}).column_names == ["y", "ts_ms"]


def test_names_that_differ_in_case_are_two_columns() -> None:
    assert table({"a": 1, "A": 2}).column_names == ["a", "A", "ts_ms"]


def test_names_need_not_be_identifiers() -> None:
    assert column({"a b.c/ü=1": 7}, name="a b.c/ü=1") == [7]


@pytest.mark.parametrize(
    ("value", "stored_as"),
    [
        (True, "bool"),
        (1, "int64"),
        (-(2**63), "int64"),
        (2**63 - 1, "int64"),
        (1.5, "double"),
        ("text", "string"),
        ("", "string"),
        (b"\xff", "binary"),
        (Decimal("1.25"), "decimal128(3, 2)"),
        (date(2024, 1, 15), "date32[day]"),
        (datetime(2024, 1, 15, 12), "timestamp[us]"),
        (datetime(2024, 1, 15, 12, tzinfo=UTC), "timestamp[us, tz=UTC]"),
        ([1, None, 2], "list<item: int64>"),
        ({"a": {"b": "c"}}, "struct<a: struct<b: string>>"),
        ([{"a": 1.5}], "list<item: struct<a: double>>"),
    ],
)
def test_each_kind_of_value_has_its_type(value: object, stored_as: str) -> None:
    assert kind({"x": value}) == stored_as
    assert column({"x": value}) == [value]


@pytest.mark.parametrize(
    ("value", "stored_as", "stored"),
    [
        (time(12, 30), "string", "12:30:00.000000"),
        (pa.scalar(7, pa.uint8()), "int64", 7),
        (pa.scalar(7, pa.uint64()), "int64", 7),
        (pa.scalar(1.5, pa.float16()), "float", 1.5),
        ({"a": pa.scalar(7, pa.uint16())}, "struct<a: int64>", {"a": 7}),
        ([time(12, 30)], "list<item: string>", ["12:30:00.000000"]),
    ],
)
def test_what_spark_cannot_hold_is_stored_as_its_next_of_kin(value: object, stored_as: str, stored: object) -> None:
    assert kind({"x": value}) == stored_as
    assert column({"x": value}) == [stored]


def test_nanoseconds_are_cut_to_microseconds() -> None:
    nanoseconds = pa.scalar(NOON * 10**6 + 1_999, pa.timestamp("ns"))
    assert kind({"x": nanoseconds}) == "timestamp[us]"
    assert column({"x": nanoseconds}) == [datetime(2024, 1, 15, 12, 0, 0, 1)]


def test_whole_numbers_and_fractions_become_fractions() -> None:
    assert column({"x": 1}, {"x": 2.5}, {"x": None}) == [1.0, 2.5, None]
    assert column({"x": 2.5}, {"x": 1}) == [2.5, 1.0]


def test_not_a_number_is_a_number() -> None:
    assert math.isnan(column({"x": math.nan}, {"x": 1.0})[0])


# --- empty and nested -----------------------------------------------------------------------------------------------


def test_an_empty_record_is_a_row_with_the_timestamp_of_kafka() -> None:
    assert table({}, {"x": 1}).to_pylist() == [{"x": None, "ts_ms": NOON}, {"x": 1, "ts_ms": NOON}]
    assert table({}).to_pylist() == [{"ts_ms": NOON}]


def test_an_empty_dict_is_null() -> None:
    assert column({"x": {}}, {"x": {"a": 1}}, {"x": None}) == [None, {"a": 1}, None]
    assert "x" not in table({"x": {}}).column_names


def test_a_record_in_which_nothing_has_a_value_is_a_row_all_the_same() -> None:
    assert table({"ts_ms": None}, {"ts_ms": None, "x": {}}).num_rows == 2


def test_fields_of_structs_are_the_union_too() -> None:
    assert column({"x": {"a": 1}}, {"x": {"b": "2"}}) == [{"a": 1, "b": None}, {"a": None, "b": "2"}]


def test_parts_of_a_struct_without_any_value_are_left_out() -> None:
    assert column({"x": {"a": 1, "n": None, "e": {}, "d": {"n": None}}}) == [{"a": 1}]
    assert "x" not in table({"x": {"n": None}, "y": 1}).column_names


def test_a_null_struct_stays_null_where_parts_are_left_out() -> None:
    assert column({"x": None}, {"x": {"a": 1, "n": None}}, {}) == [None, {"a": 1}, None]


def test_a_list_without_any_value_keeps_its_length() -> None:
    assert column({"x": []}, {"x": [None, None]}, {"x": None}) == [[], [None, None], None]
    assert kind({"x": []}) == "list<item: string>"


def test_lists_keep_their_elements_where_parts_of_these_are_left_out() -> None:
    values: list[dict[str, Any]] = [{"x": [{"a": 1, "n": None}, {"a": 2}]}, {"x": []}, {"x": None}, {"x": [{"a": 3}]}]
    assert column(*values) == [[{"a": 1}, {"a": 2}], [], None, [{"a": 3}]]


def test_lists_of_nothing_but_empty_dicts_and_lists_keep_their_length() -> None:
    assert column({"x": [{}, {}]}, {"x": []}) == [[None, None], []]
    assert column({"x": [[], [None]]}, {"x": None}) == [[[], [None]], None]


@pytest.mark.parametrize("name", [".a", "[0]", "a.b", "", " "])
def test_names_inside_a_struct_are_no_paths(name: str) -> None:
    assert column({"x": {name: 1, "n": None}}) == [{name: 1}]


# --- timestamp and key ----------------------------------------------------------------------------------------------


def test_the_timestamp_of_kafka_fills_only_what_is_missing() -> None:
    assert column({"ts_ms": 7}, {}, {"ts_ms": None}, name="ts_ms") == [7, NOON, None]


def test_the_timestamp_of_kafka_goes_to_the_configured_column() -> None:
    assert table({"ts_ms": 7}, timestamp_column="when").to_pylist() == [{"ts_ms": 7, "when": NOON}]


@pytest.mark.parametrize(
    ("value", "filled"),
    [
        (None, NOON),
        (1.5, float(NOON)),
        ("2024-01-01", "2024-01-15T12:00:00.000+00:00"),
        (datetime(2024, 1, 1), datetime(2024, 1, 15, 12)),
        (datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 15, 12, tzinfo=UTC)),
        (date(2024, 1, 1), date(2024, 1, 15)),
    ],
)
def test_the_timestamp_of_kafka_takes_the_form_of_the_others(value: object, filled: object) -> None:
    assert column({"ts_ms": value}, {}, name="ts_ms") == [value, filled]


def test_the_timestamp_of_kafka_needs_more_than_a_short_integer() -> None:
    assert column({"ts_ms": pa.scalar(1, pa.int32())}, {}, name="ts_ms") == [1, NOON]


@pytest.mark.parametrize("value", [True, b"x", [1], {"a": 1}, Decimal("1.5"), time(12)])
def test_a_timestamp_that_cannot_join_the_others_names_its_row(value: object) -> None:
    error = refused([row({"ts_ms": value}), row({"ts_ms": value}), row({"x": 1})])
    assert error.row == 2
    assert f"it has no 'ts_ms', and its Kafka timestamp {NOON} does not fit" in error.reason


@pytest.mark.parametrize("value", ["2024-01-01", datetime(2024, 1, 1)])
def test_a_timestamp_of_kafka_beyond_all_time_names_its_row(value: object) -> None:
    rows = [row({"ts_ms": value}), row({}), row({}, timestamp=2**62), row({})]
    assert refused(rows).row == 2


@pytest.mark.parametrize("value", ["2024-01-01", datetime(2024, 1, 1)])
def test_an_odd_timestamp_of_kafka_does_not_matter_where_the_record_has_its_own(value: object) -> None:
    stored = to_table([row({"ts_ms": value}, timestamp=2**62), row({})], "ts_ms")
    assert stored.column("ts_ms")[0].as_py() == value


def test_the_kafka_key_wins_over_a_field_of_its_name() -> None:
    stored = to_table([row({"__key": "own"}, key="kafka"), row({"__key": "own"}, key=None)], "ts_ms")
    assert stored.column("__key").to_pylist() == ["kafka", None]


def test_without_any_key_there_is_no_column_of_keys() -> None:
    assert "__key" not in table({"__key": "own"}).column_names


@pytest.mark.parametrize("key", ["text", 7, 1.5, b"\xff", {"id": 1}])
def test_keys_of_any_kind(key: object) -> None:
    assert to_table([row({}, key=key)], "ts_ms").column("__key").to_pylist() == [key]


def test_a_key_of_another_kind_names_its_row() -> None:
    error = refused([row({}, key="a"), row({}, key=None), row({}, key=7)])
    assert error.row == 2
    assert error.reason == "the key 7 does not fit the keys before it"


# --- what cannot be stored ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "row_number", "reason"),
    [
        ([1, 2, "three"], 2, "column 'x' has the value 'three', which does not fit after int values"),
        (["one", None, 2, 3], 2, "column 'x' has the value 2, which does not fit after str values"),
        ([None, 1, {"a": 1}], 2, "does not fit after int values"),
        ([[1], "x"], 1, "does not fit after list values"),
        ([[1], [2], ["x"]], 2, "does not fit after list values"),
        ([{"a": 1}, {"a": "x"}], 1, "column 'x' has the value {'a': 'x'}, which does not fit after dict values"),
        ([True, 1], 1, "does not fit after bool values"),
        ([1, True], 1, "does not fit after int values"),
        ([2**63], 0, "column 'x' has the value 9223372036854775808, which does not fit"),
        ([1, -(2**63) - 1], 1, "does not fit after int values"),
        ([0.5, 2**60 + 1], 1, "does not fit after float values"),
        (["a", "\ud800"], 1, "column 'x' has the value '\\ud800', which does not fit after str values"),
        ([{"a": "\udfff"}], 0, "which does not fit"),
        ([date(2024, 1, 1), None, datetime(2024, 1, 1, 5)], 2, "which does not fit after date values"),
        ([datetime(2024, 1, 1, 5), date(2024, 1, 1)], 1, "which does not fit after datetime values"),
        ([date(2024, 1, 1), 5], 1, "the record {'y': 1, 'x': 5} cannot be converted to columns"),
        ([Decimal(1), Decimal(10) ** 40], 1, "beyond decimal128(38, 0)"),
        ([Decimal("1e-20"), Decimal(10) ** 30], 1, "beyond decimal128(38, 20)"),
        ([UUID(int=1)], 0, "cannot be converted to columns"),
        ([object()], 0, "which does not fit"),
        (
            [pa.scalar(1, pa.uint64()), pa.scalar(2**63, pa.uint64())],
            1,
            "column 'x' has the value 9223372036854775808, beyond int64",
        ),
    ],
)
def test_a_value_that_does_not_fit_names_its_row(values: list[object], row_number: int, reason: str) -> None:
    error = refused([row({"y": 1, "x": value}) for value in values])
    assert error.row == row_number
    assert reason in error.reason


def test_the_row_is_found_among_many() -> None:
    rows = [row({"x": number}) for number in range(10_000)]
    rows[7_531] = row({"x": "seven"})
    assert refused(rows).row == 7_531


def test_a_field_name_that_is_no_text_names_its_row() -> None:
    rows = [row({"x": 1}), row({1: "x"})]  # type: ignore[dict-item] # what a transform() could do
    error = refused(rows)
    assert error.row == 1
    assert error.reason == "the record {1: 'x'} cannot be converted to columns"


def test_a_field_name_that_is_no_unicode_names_its_row() -> None:
    assert refused([row({"x": 1}), row({"\ud800": 1})]).row == 1


def test_a_long_value_is_shown_cut() -> None:
    assert len(refused([row({"x": 1}), row({"x": "v" * 10_000})]).reason) < 200
