"""Rows as they came become columns of the table's schema, and what fits none is kept beside them."""

import math
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from uuid import UUID

import pyarrow as pa
import pytest

from app.convert.rows import Rules, convert
from app.convert.values import Rescue
from app.reason_texts import Reason
from app.table.schema import EMPTY, TableSchema
from tests.support.batches import NOON, row
from tests.unit.convert.conversions import RULES, converted, rescued, rescued_of, stored

# --- columns --------------------------------------------------------------------------------------------------------


def test_columns_are_in_the_order_in_which_they_first_had_a_value() -> None:
    rows = [row({"n": None, "b": 1}, key="k"), row({"a": 2, "b": 3}), row({"Z": 4, "ts_ms": 5, "c": 6, "n": 7})]
    conversion = convert(rows, EMPTY, RULES)
    assert conversion.table.column_names == ["b", "ts_ms", "__key", "a", "Z", "c", "n"]
    assert list(conversion.schema.columns) == conversion.table.column_names


def test_columns_of_the_table_keep_their_places_and_only_those_with_a_value_are_there() -> None:
    columns = {"a": pa.string(), "b": pa.int64(), "ts_ms": pa.int64()}
    schema = TableSchema(dict(columns))
    conversion = convert([row({"new": 1, "b": 2.5})], schema, RULES)
    assert conversion.table.column_names == ["b", "ts_ms", "new"]
    assert list(conversion.schema.columns) == ["a", "b", "ts_ms", "new"]
    assert conversion.schema.columns["b"] == pa.float64()
    assert schema == TableSchema(columns), "the given schema is not changed"


def test_a_column_without_any_value_is_no_column() -> None:
    conversion = converted({"x": None, "e": {}, "y": 1}, {"x": None})
    assert conversion.table.column_names == ["y", "ts_ms"]
    assert list(conversion.schema.columns) == ["y", "ts_ms"]


def test_rows_without_anything_are_rows_all_the_same() -> None:
    table = converted({"ts_ms": None}, {"ts_ms": None, "x": {}}).table
    assert (table.column_names, table.num_rows) == ([], 2)
    assert convert([], EMPTY, RULES).table.num_rows == 0


def test_partition_columns_live_in_the_folders() -> None:
    rules = Rules("ts_ms", frozenset({"place", "__key"}))
    conversion = convert([row({"place": "here", "x": 1}, key="k")], EMPTY, rules)
    assert conversion.table.to_pylist() == [{"x": 1, "ts_ms": NOON}]
    assert list(conversion.schema.columns) == ["x", "ts_ms"]


# --- kinds of values ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (True, "boolean"),
        (1, "bigint"),
        (-(2**63), "bigint"),
        (2**63 - 1, "bigint"),
        (1.5, "double"),
        (1.0, "double"),
        ("", "string"),
        (b"\xff", "binary"),
        (Decimal("1.25"), "decimal(38,18)"),
        (date(2024, 1, 15), "date"),
        (datetime(2024, 1, 15, 12), "timestamp_ntz"),
        (datetime(2024, 1, 15, 12, tzinfo=UTC), "timestamp"),
        (datetime(2024, 1, 15, 12, tzinfo=timezone(timedelta(hours=2))), "timestamp"),
        ([1, None, 2], "array<bigint>"),
        ({"a": {"b": "c"}}, "struct<a:struct<b:string>>"),
        ([{"a": 1.5}], "array<struct<a:double>>"),
        ([[1.5], []], "array<array<double>>"),
    ],
)
def test_each_kind_of_value_has_its_type(value: object, kind: str) -> None:
    assert stored(value) == (kind, [value])


@pytest.mark.parametrize(
    ("value", "kind", "as_stored"),
    [
        (time(12, 30), "string", "12:30:00"),
        ([time(12, 30)], "array<string>", ["12:30:00"]),
        (pa.scalar(7, pa.uint8()), "bigint", 7),
        (pa.scalar(7, pa.int32()), "bigint", 7),
        (pa.scalar(1.5, pa.float16()), "double", 1.5),
        ({"a": pa.scalar(7, pa.uint64())}, "struct<a:bigint>", {"a": 7}),
        (pa.scalar(NOON * 10**6 + 1_000, pa.timestamp("ns")), "timestamp_ntz", datetime(2024, 1, 15, 12, 0, 0, 1)),
        (bytearray(b"x"), "binary", b"x"),
    ],
)
def test_what_spark_has_no_type_for_is_stored_as_its_next_of_kin(value: object, kind: str, as_stored: object) -> None:
    assert stored(value) == (kind, [as_stored])


@pytest.mark.parametrize(
    ("values", "kind", "as_stored"),
    [
        ([3, None, 1, 2], "bigint", [3, None, 1, 2]),
        ([1, 2.5, None], "double", [1.0, 2.5, None]),
        ([1, -0.0], "double", [1.0, 0.0]),
        ([1, math.inf], "double", [1.0, math.inf]),
        ([{"a": 1}, {"a": 1.5}], "struct<a:double>", [{"a": 1.0}, {"a": 1.5}]),
        ([[1], [1.5]], "array<double>", [[1.0], [1.5]]),
        ([{"a": 1}, {"b": "2"}], "struct<a:bigint,b:string>", [{"a": 1, "b": None}, {"a": None, "b": "2"}]),
        ([Decimal("1.5"), 1], "decimal(38,18)", [Decimal("1.5"), Decimal(1)]),
    ],
)
def test_what_fits_without_loss_shares_a_column(values: list[object], kind: str, as_stored: list[object]) -> None:
    assert stored(*values) == (kind, as_stored)
    assert rescued_of(*values) == [None] * len(values)


@pytest.mark.parametrize(
    ("values", "kind", "left_over"),
    [
        ([1.5, True], "double", [None, True]),
        ([[1.5, True]], None, [[1.5, True]]),
        ([1, True], "bigint", [None, True]),
        (["abc", 1], "string", [None, 1]),
        (["abc", b"abc"], "string", [None, "YWJj"]),
        ([2**63], None, [2**63]),
        ([1, 2**70], "bigint", [None, 2**70]),
        ([0.5, 2**53 + 1, 2**60], "double", [None, 2**53 + 1, None]),
        ([2**53 + 1, 0.5], "double", [2**53 + 1, None]),
        ([Decimal("1.5"), 2.5], "decimal(38,18)", [None, 2.5]),
        ([Decimal("1e-19"), Decimal("NaN")], None, ["1E-19", "NaN"]),
        ([date(2024, 1, 1), datetime(2024, 1, 1, 5)], "date", [None, "2024-01-01T05:00:00"]),
        (
            [datetime(2024, 1, 1), datetime(2024, 1, 1, tzinfo=UTC)],
            "timestamp_ntz",
            [None, "2024-01-01T00:00:00+00:00"],
        ),
        ([datetime(2024, 1, 1), 5], "timestamp_ntz", [None, 5]),
        ([1, math.nan, "x"], "double", [None, None, "x"]),
        (["ok", "\ud800"], "string", [None, "\ud800"]),
        ([[1], {"a": 1}], "array<bigint>", [None, {"a": 1}]),
        ([1, {"a": math.nan, "b": [-math.inf]}], "bigint", [None, {"a": "NaN", "b": ["-Infinity"]}]),
        ([UUID(int=1)], None, [str(UUID(int=1))]),
        ([pa.scalar(2**63, pa.uint64())], None, [2**63]),
        ([{"a": 1, 2: 3}], None, [{"a": 1, "2": 3}]),
    ],
)
def test_what_does_not_fit_is_kept_as_json(values: list[object], kind: str | None, left_over: list[object]) -> None:
    assert stored(*values)[0] == kind
    assert rescued_of(*values) == [None if value is None else {"x": value} for value in left_over]


def test_the_column_of_a_table_that_exists_keeps_its_short_integers() -> None:
    short = {"x": pa.int32()}
    assert stored(1, 2.0, 2**31, 1.5, schema=short) == ("int", [1, 2, None, None])
    assert rescued_of(1, 2**31, schema=short) == [None, {"x": 2**31}]


def test_what_was_rescued_is_counted_with_an_example() -> None:
    conversion = converted({"x": 1, "y": "a"}, {"x": "abc", "y": 5}, {"x": "v" * 10_000})
    assert conversion.rescued["x"] == Rescue(2, Reason("a value of type str in a bigint column"))
    assert conversion.rescued["y"] == Rescue(1, Reason("a value of type int in a string column"))
    assert len(converted({"x": 1}, {"x": "v" * 10_000}).rescued["x"].example) < 120


def test_records_add_no_more_columns_than_the_limit_allows_until_it_is_higher() -> None:
    record = {"a": 1, "b": {"c": 2, "d": 3}, "e": 4}
    full = convert([row(record)], EMPTY, replace(RULES, column_limit=3))
    assert rescued(full) == [{"e": 4}]
    assert rescued(convert([row(record)], full.schema, replace(RULES, column_limit=3))) == [{"e": 4}]
    assert rescued(convert([row(record)], full.schema, replace(RULES, column_limit=6))) == [None]
