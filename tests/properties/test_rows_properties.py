"""Whatever records come: no value is lost or changed, and it does not matter how they are cut into batches."""

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from app.convert.columns import CHUNK_ROWS
from app.convert.rows import Conversion, Rules, convert
from app.convert.values import is_empty
from app.json_texts import to_json
from app.model import Pairs
from app.table.layout import RESCUED_COLUMN
from app.table.schema import EMPTY, TableSchema
from app.table.type_names import parse_column_types
from tests.support.batches import row

RULES = Rules("ts_ms", frozenset())
MISSING: Any = object()
NAMES = st.sampled_from(["a", "A", "b", "c.d", "", "ü", "\x00"])
EXACT = 2**53  # whole numbers up to here are the same in double


def _scalars(integers: st.SearchStrategy[int]) -> st.SearchStrategy[Any]:
    zones: Any = st.sampled_from([None, UTC, timezone(timedelta(hours=2))])
    return st.one_of(
        st.none(),
        st.booleans(),
        integers,
        st.sampled_from([0.0, 1.0, -0.0, 1.5, math.nan, math.inf, -math.inf, 1e300]),
        st.floats(),
        st.text(max_size=3),
        st.sampled_from(["\ud800", "2024-01-01"]),
        st.binary(max_size=3),
        st.dates(),
        st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9998, 1, 1), timezones=zones),
        st.times(),
        st.decimals(),
        st.sampled_from([Decimal("1.5"), Decimal("1e-18"), Decimal("NaN"), Decimal(10) ** 30]),
    )


def _values(scalars: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        scalars,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            *[st.dictionaries(NAMES, inner, max_size=3).map(kind) for kind in (dict, Pairs)],
        ),
        max_leaves=6,
    )


def _batches(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[dict[str, Any]]]:
    return st.lists(st.dictionaries(NAMES, values, max_size=4), min_size=1, max_size=6)


wide = st.one_of(st.integers(-3, 3), st.integers(), st.sampled_from([2**63, -(2**63), 2**63 - 1, EXACT + 1]))
numbers = st.one_of(st.none(), st.booleans(), wide, st.floats(), st.sampled_from([0.0, -0.0, 1.0, 2.0, 1e18]))
near_whole = st.lists(st.fixed_dictionaries({"a": st.sampled_from([1, 0, 0.0, -0.0, 2.0, None])}), min_size=1)
any_batch = st.one_of(near_whole, _batches(_values(_scalars(wide))), _batches(_values(numbers)), _batches(numbers))
exact = st.integers(-EXACT, EXACT)
exact_numbers = st.one_of(st.none(), st.booleans(), exact, st.floats(), st.sampled_from([0.0, -0.0, 1.0, 2.0]))
exact_batch = st.one_of(
    near_whole, _batches(_values(_scalars(exact))), _batches(_values(exact_numbers)), _batches(exact_numbers)
)


def converted(records: list[dict[str, Any]], schema: TableSchema = EMPTY, chunk_rows: int = CHUNK_ROWS) -> Conversion:
    with patch("app.convert.columns.CHUNK_ROWS", chunk_rows):
        return convert([row(record) for record in records], schema, RULES)


def strict(value: Any) -> Any:
    """A value so that equal means the same kind too; missing, null and empty structs and lists are the same."""
    if is_empty(value):
        return None
    if isinstance(value, Mapping):
        return {name: each for name, inner in value.items() if (each := strict(inner)) is not None}
    if isinstance(value, list):
        return [strict(each) for each in value]
    if isinstance(value, bool | str | bytes):
        return (type(value).__name__, value)
    if isinstance(value, datetime):
        return ("zoned", value.astimezone(UTC)) if value.tzinfo else ("unzoned", value)
    if isinstance(value, int | float | Decimal):
        if not _is_finite(value):
            return ("number", str(value).lower())
        return ("number", Fraction(value), math.copysign(1, value) if value == 0 else None)
    return (type(value).__name__, value)


def _is_finite(value: Any) -> bool:
    return isinstance(value, int) or (value.is_finite() if isinstance(value, Decimal) else math.isfinite(value))


def assert_kept(original: Any, stored: Any, rescued: Any) -> None:
    """The original is in its column or, in JSON's form, among what was rescued; of structs field by field."""
    if strict(original) is None:
        assert strict(stored) is None
    elif isinstance(original, dict) and (rescued is MISSING or isinstance(rescued, dict)):
        for name, value in original.items():
            inner = MISSING if rescued is MISSING else rescued.get(name, MISSING)
            assert_kept(value, (stored or {}).get(name), inner)
        assert {name for name, value in (stored or {}).items() if value is not None} <= set(original)
    elif rescued is MISSING:
        as_stored = original.isoformat() if type(original).__name__ == "time" else original
        assert strict(stored) == strict(_times_as_text(as_stored))
    else:
        assert stored is None
        assert strict(rescued) == strict(json.loads(to_json(original)))


def _times_as_text(value: Any) -> Any:
    if isinstance(value, list):
        return [_times_as_text(each) for each in value]
    if isinstance(value, dict):
        return {name: _times_as_text(each) for name, each in value.items()}
    return value.isoformat() if type(value).__name__ == "time" else value


def rows_of(*conversions: Conversion) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Per row what is stored in the columns, and what was rescued."""
    found = []
    for conversion in conversions:
        for stored in conversion.table.to_pylist(maps_as_pydicts="strict"):
            rescued = json.loads(stored.pop(RESCUED_COLUMN, None) or "{}")
            found.append((stored, rescued))
    return found


def unordered(kind: pa.DataType) -> Any:
    if pa.types.is_struct(kind):
        return {field.name: unordered(field.type) for field in kind}
    return [unordered(kind.value_type)] if pa.types.is_list(kind) else kind


@example([{"\x00": {"a": False}}, {"\x00": []}], 1)
@given(any_batch, st.sampled_from([1, 2, CHUNK_ROWS]))
def test_no_value_is_lost_or_changed(records: list[dict[str, Any]], chunk_rows: int) -> None:
    conversion = converted(records, chunk_rows=chunk_rows)
    rows = rows_of(conversion)
    assert len(rows) == len(records)
    for record, (stored, rescued) in zip(records, rows, strict=True):
        for name, value in record.items():
            assert_kept(value, stored.get(name), rescued.get(name, MISSING))
    assert sum(rescue.count for rescue in conversion.rescued.values()) == sum(len(rescued) for _, rescued in rows)


@given(any_batch)
def test_columns_have_the_types_of_the_schema_and_each_has_a_value(records: list[dict[str, Any]]) -> None:
    conversion = converted(records)
    table = conversion.table
    assert {name: table.schema.field(name).type for name in table.column_names} == {
        name: conversion.schema.columns[name] for name in table.column_names
    }
    assert table.column_names == [name for name in conversion.schema.columns if name in table.column_names]
    assert all(column.null_count < len(column) for column in table.columns)
    assert conversion.schema.merge(conversion.schema) == conversion.schema
    assert TableSchema.from_document(conversion.schema.to_document()) == conversion.schema


@given(exact_batch, st.data())
def test_it_does_not_matter_where_batches_are_cut(records: list[dict[str, Any]], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(records)))
    whole = converted(records, chunk_rows=data.draw(st.sampled_from([1, 2, CHUNK_ROWS])))
    first = converted(records[:cut])
    second = converted(records[cut:], first.schema if cut else EMPTY)

    last = second.schema if cut < len(records) else first.schema
    assert {name: unordered(kind) for name, kind in last.columns.items() if name != "__key"} == {
        name: unordered(kind) for name, kind in whole.schema.columns.items() if name != "__key"
    }
    parts = [strict(list(each)) for each in rows_of(first, second)]
    assert parts == [strict(list(each)) for each in rows_of(whole)]


FIXED = parse_column_types("a:string,b:decimal(10,2),ü:double,d:timestamp")


@given(any_batch)
def test_types_that_were_fixed_never_change_and_numbers_in_them_stay_the_same(records: list[dict[str, Any]]) -> None:
    rules = Rules("ts_ms", frozenset(), FIXED)
    conversion = convert([row(record) for record in records], EMPTY, rules)
    columns = conversion.schema.columns
    assert {name: columns.get(name, kind) for name, kind in FIXED.items()} == FIXED
    for record, (stored, rescued) in zip(records, rows_of(conversion), strict=True):
        if isinstance(record.get("a"), str) and "a" not in rescued:
            assert stored["a"] == record["a"]
        for name in ("b", "ü"):
            value = record.get(name)
            if value is not None and stored.get(name) is not None:
                expected = Decimal(repr(value)) if isinstance(value, float) and name == "b" else value
                assert strict(stored[name]) == strict(expected)
            elif strict(value) is not None:
                assert name in rescued
