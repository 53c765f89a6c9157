"""Columns whose types the user has given take more than others, and never grow."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from app.convert.rows import Rules, convert
from app.model import Row
from app.table.schema import EMPTY, TableSchema
from app.table.type_names import parse_type, type_name
from tests.support.batches import NOON, row
from tests.unit.convert.conversions import RULES, fixed, rescued


@pytest.mark.parametrize(
    ("column_type", "value", "as_stored"),
    [
        ("string", True, "true"),
        ("string", math.nan, '"NaN"'),
        ("string", Decimal("1.50"), "1.50"),
        ("string", date(2024, 1, 1), "2024-01-01"),
        ("timestamp", "2024-01-15T12:00:00Z", datetime(2024, 1, 15, 12, tzinfo=UTC)),
        ("timestamp", "2024-01-15t12:00:00.5z", datetime(2024, 1, 15, 12, 0, 0, 500_000, UTC)),
        ("decimal(38,0)", 2**70, Decimal(2**70)),
        ("int", 5, 5),
    ],
)
def test_a_column_whose_type_was_fixed_takes_what_fits(column_type: str, value: object, as_stored: object) -> None:
    conversion = fixed(f"x:{column_type}", {"x": value})
    assert conversion.table["x"].to_pylist() == [as_stored]
    assert type_name(conversion.schema.columns["x"]) == column_type
    # The same among others of its kind, and among others of another kind.
    odd = b"\xff" if column_type != "string" else None
    assert fixed(f"x:{column_type}", {"x": value}, {"x": value}).table["x"].to_pylist() == [as_stored] * 2
    assert fixed(f"x:{column_type}", {"x": value}, {"x": odd}).table["x"].to_pylist() == [as_stored, None]


@pytest.mark.parametrize(
    ("column_type", "value", "left_over"),
    [
        ("bigint", "5", "5"),
        ("double", True, True),
        ("decimal(10,2)", 10**9, 10**9),
        ("decimal(10,2)", math.nan, "NaN"),
        ("timestamp", "2024-01-15T12:00:00.1234567Z", "2024-01-15T12:00:00.1234567Z"),
        ("timestamp", "2024-01-15T" + "0" * 60, "2024-01-15T" + "0" * 60),
        ("date", "2024-01-15T12:00:00", "2024-01-15T12:00:00"),
        ("string", "\ud800", "\ud800"),
        ("struct<a:bigint>", {"a": 1, "b": 2}, {"b": 2}),
        ("array<bigint>", [1.5], [1.5]),
        ("map<string,bigint>", {"a": 1, "b": 1.5}, {"b": 1.5}),
    ],
)
def test_a_column_whose_type_was_fixed_never_grows(column_type: str, value: object, left_over: object) -> None:
    conversion = fixed(f"x:{column_type}", {"x": value})
    assert rescued(conversion) == [{"x": left_over}]
    kind = conversion.schema.columns.get("x")  # there is none before the first value that fits
    assert kind is None or type_name(kind) == column_type
    rules = Rules("ts_ms", frozenset(), {"x": parse_type(column_type)})
    known = convert([row({"x": value})], TableSchema({"x": parse_type(column_type)}), rules)
    assert rescued(known) == [{"x": left_over}]
    assert type_name(known.schema.columns["x"]) == column_type


def test_rows_are_distinguished_by_their_position_not_their_offset() -> None:
    rows = [Row({"x": 1}, None, NOON, 500), Row({"x": "a"}, None, NOON, 3)]
    assert rescued(convert(rows, EMPTY, RULES)) == [None, {"x": "a"}]
