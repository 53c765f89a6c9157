"""What Iceberg cannot follow: a column that changes from bigint to double, and names with dots."""

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from app.convert.rows import Conversion, convert
from app.parts.iceberg import refusal_of_name
from app.table.schema import EMPTY, TableSchema, join_types
from tests.support.batches import row
from tests.unit.convert.conversions import RULES, rescued

ICEBERG = replace(RULES, widens=False, refuse=refusal_of_name)
LISTS = pa.list_(pa.struct([("x", pa.int64())]))


def converted(*values: Any, schema: TableSchema = EMPTY) -> Conversion:
    return convert([row({"a": value}) for value in values], schema, ICEBERG)


@pytest.mark.parametrize("many", [1, 5_000], ids=["few", "many"])
def test_a_fraction_in_a_bigint_column_is_rescued(many: int) -> None:
    conversion = converted(*[1, 2.5, 3.0] * many, schema=TableSchema({"a": pa.int64()}))
    assert conversion.table["a"].to_pylist() == [1, None, 3] * many
    assert rescued(conversion) == [None, {"a": 2.5}, None] * many
    assert conversion.schema.columns["a"] == pa.int64()


def test_a_fraction_in_a_field_that_is_bigint_is_rescued() -> None:
    conversion = converted([{"x": 1}], [{"x": 2.5}], schema=TableSchema({"a": LISTS}))
    assert conversion.table["a"].to_pylist() == [[{"x": 1}], None]
    assert conversion.schema.columns["a"] == LISTS


@pytest.mark.parametrize("many", [1, 5_000], ids=["few", "many"])
def test_a_new_column_still_becomes_double(many: int) -> None:
    assert converted(*[1, 2.5] * many).schema.columns["a"] == pa.float64()


@pytest.mark.parametrize("value", [{"b.c": 1}, {"b": {"c.d": 1}}])
def test_a_name_with_a_dot_becomes_no_column(value: dict[str, Any]) -> None:
    conversion = convert([row({"n": 1, **value})], EMPTY, ICEBERG)
    assert not any("." in str(name) for name in conversion.schema.columns)
    assert rescued(conversion) == [value]
    assert "Iceberg reads as a path" in next(iter(conversion.rescued.values())).example


def test_a_name_that_iceberg_reserves_becomes_no_column() -> None:
    conversion = convert([row({"n": 1, "_file": "x"})], EMPTY, ICEBERG)
    assert "_file" not in conversion.schema.columns
    assert rescued(conversion) == [{"_file": "x"}]


def test_of_two_members_the_first_type_stays() -> None:
    assert join_types(pa.int64(), pa.float64(), widens=False) == pa.int64()
    assert join_types(pa.int32(), pa.int64(), widens=False) == pa.int64()
    assert join_types(pa.float64(), pa.int64(), widens=False) == pa.float64()
