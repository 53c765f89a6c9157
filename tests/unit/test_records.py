"""Rows as they came become columns of the table's schema, and what fits none is kept beside them."""

import json
import math
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from app.bad_rows import BadRowsError
from app.model import Row
from app.records import Conversion, Rules, convert
from app.rescue import Rescue
from app.schema import EMPTY, TableSchema
from app.type_names import parse_column_types, type_name
from tests.unit.batches import NOON, row

RULES = Rules("ts_ms", frozenset())
INT = {"x": pa.int64()}


def converted(*values: dict[str, Any], schema: dict[str, pa.DataType] | None = None) -> Conversion:
    return convert([row(value) for value in values], TableSchema(schema or {}), RULES)


def stored(*values: object, schema: dict[str, pa.DataType] | None = None) -> tuple[str | None, list[Any]]:
    """The type of the column ``x`` and what it holds of these values; ``None`` where there is no such column."""
    conversion = converted(*({"x": value} for value in values), schema=schema)
    kind = conversion.schema.columns.get("x")
    has_column = "x" in conversion.table.column_names
    column = conversion.table["x"].to_pylist() if has_column else [None] * len(values)
    return (None if kind is None else type_name(kind)), column


def rescued(conversion: Conversion) -> list[Any]:
    """Per row what was rescued."""
    table = conversion.table
    if "_rescued_data" not in table.column_names:
        return [None] * table.num_rows
    return [None if text is None else json.loads(text) for text in table["_rescued_data"].to_pylist()]


def rescued_of(*values: object, schema: dict[str, pa.DataType] | None = None) -> list[Any]:
    return rescued(converted(*({"x": value} for value in values), schema=schema))


def fixed(column_types: str, *values: dict[str, Any]) -> Conversion:
    types = parse_column_types(column_types)
    rules = Rules("ts_ms", frozenset(), frozenset(types))
    return convert([row(value) for value in values], TableSchema(types), rules)


# --- columns --------------------------------------------------------------------------------------------------------


def test_columns_are_in_the_order_in_which_they_first_had_a_value() -> None:
    rows = [row({"n": None, "b": 1}, key="k"), row({"a": 2, "b": 3}), row({"Z": 4, "ts_ms": 5, "c": 6, "n": 7})]
    conversion = convert(rows, EMPTY, RULES)
    assert conversion.table.column_names == ["b", "ts_ms", "__key", "a", "Z", "c", "n"]
    assert list(conversion.schema.columns) == conversion.table.column_names


def test_columns_of_the_table_keep_their_places_and_only_those_with_a_value_are_there() -> None:
    conversion = converted({"new": 1, "b": 2}, schema={"a": pa.string(), "b": pa.int64(), "ts_ms": pa.int64()})
    assert conversion.table.column_names == ["b", "ts_ms", "new"]
    assert list(conversion.schema.columns) == ["a", "b", "ts_ms", "new"]


def test_rows_keep_their_order() -> None:
    assert stored(3, 1, 2)[1] == [3, 1, 2]


def test_whole_numbers_stay_whole_beside_null() -> None:
    assert stored(1, None, 2) == ("bigint", [1, None, 2])


def test_a_column_without_any_value_is_no_column() -> None:
    conversion = converted({"x": None, "e": {}, "y": 1}, {"x": None})
    assert conversion.table.column_names == ["y", "ts_ms"]
    assert list(conversion.schema.columns) == ["y", "ts_ms"]


def test_rows_without_anything_are_rows_all_the_same() -> None:
    table = converted({"ts_ms": None}, {"ts_ms": None, "x": {}}).table
    assert table.to_pylist() == [{"__key": None}] * 2
    assert table.schema.field("__key").type == pa.string()
    assert convert([], EMPTY, RULES).table.num_rows == 0


def test_partition_columns_live_in_the_folders() -> None:
    rules = Rules("ts_ms", frozenset({"place", "__key"}))
    conversion = convert([row({"place": "here", "x": 1}, key="k")], EMPTY, rules)
    assert conversion.table.to_pylist() == [{"x": 1, "ts_ms": NOON}]
    assert list(conversion.schema.columns) == ["x", "ts_ms"]


@pytest.mark.parametrize("name", ["a b.c/ü=1", "", " ", ".a", "[0]", "😀", "a\x00b", "`"])
def test_names_need_not_be_identifiers(name: str) -> None:
    assert converted({name: {name: 7}}).table[name].to_pylist() == [{name: 7}]


def test_the_given_schema_is_not_changed() -> None:
    schema = TableSchema({"x": pa.int64()})
    assert convert([row({"x": 1.5, "y": 1})], schema, RULES).schema.columns["x"] == pa.float64()
    assert schema == TableSchema({"x": pa.int64()})


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
        ([1, 1.0], "bigint", [1, 1]),
        ([1, 2.5, None], "double", [1.0, 2.5, None]),
        ([1, -0.0], "double", [1.0, 0.0]),
        ([1, math.inf], "double", [1.0, math.inf]),
        ([1, 1e300], "double", [1.0, 1e300]),
        ([1.0, 1], "double", [1.0, 1.0]),
        ([{"a": 1}, {"a": 1.5}], "struct<a:double>", [{"a": 1.0}, {"a": 1.5}]),
        ([[1], [1.5]], "array<double>", [[1.0], [1.5]]),
        ([{"a": 1}, {"b": "2"}], "struct<a:bigint,b:string>", [{"a": 1, "b": None}, {"a": None, "b": "2"}]),
        ([Decimal("1.5"), 1], "decimal(38,18)", [Decimal("1.5"), Decimal(1)]),
    ],
)
def test_what_fits_without_loss_shares_a_column(values: list[object], kind: str, as_stored: list[object]) -> None:
    assert stored(*values) == (kind, as_stored)
    assert rescued_of(*values) == [None] * len(values)


def test_the_sign_of_zero_and_what_is_no_number_survive_in_a_column_of_whole_numbers() -> None:
    _, [one, zero, no_number] = stored(1, -0.0, math.nan, schema=INT)
    assert (one, math.copysign(1, zero)) == (1.0, -1.0)
    assert math.isnan(no_number)


@pytest.mark.parametrize(
    ("values", "kind", "left_over"),
    [
        ([1.5, True], "double", [None, True]),
        ([1.0, True, 0.0, False], "double", [None, True, None, False]),
        ([[1.5, True]], None, [[1.5, True]]),
        ([{"a": 1.5}, {"a": True}], "struct<a:double>", [None, {"a": True}]),
        ([True, 1], "boolean", [None, 1]),
        ([1, True], "bigint", [None, True]),
        ([1, "abc", 2], "bigint", [None, "abc", None]),
        (["abc", 1], "string", [None, 1]),
        (["abc", b"abc"], "string", [None, "YWJj"]),
        ([b"abc", "abc"], "binary", [None, "abc"]),
        ([2**63], None, [2**63]),
        ([1, 2**70], "bigint", [None, 2**70]),
        ([0.5, 2**53 + 1, 2**60], "double", [None, 2**53 + 1, None]),
        ([2**53 + 1, 0.5], "double", [2**53 + 1, None]),
        ([1.5, Decimal("2.5")], "double", [None, "2.5"]),
        ([Decimal("1.5"), 2.5], "decimal(38,18)", [None, 2.5]),
        ([Decimal("1e-19"), Decimal("NaN")], None, ["1E-19", "NaN"]),
        ([date(2024, 1, 1), datetime(2024, 1, 1, 5)], "date", [None, "2024-01-01T05:00:00"]),
        ([datetime(2024, 1, 1, 5), date(2024, 1, 1)], "timestamp_ntz", [None, "2024-01-01"]),
        (
            [datetime(2024, 1, 1), datetime(2024, 1, 1, tzinfo=UTC)],
            "timestamp_ntz",
            [None, "2024-01-01T00:00:00+00:00"],
        ),
        ([datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 1)], "timestamp", [None, "2024-01-01T00:00:00"]),
        ([datetime(2024, 1, 1), 5], "timestamp_ntz", [None, 5]),
        ([date(2024, 1, 1), 5], "date", [None, 5]),
        ([1, math.nan, "x"], "double", [None, None, "x"]),
        (["ok", "\ud800"], "string", [None, "\ud800"]),
        ([{"a": 1}, [1], 2], "struct<a:bigint>", [None, [1], 2]),
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
    assert conversion.rescued["x"] == Rescue(2, "'abc' in a bigint column")
    assert conversion.rescued["y"] == Rescue(1, "5 in a string column")
    assert len(converted({"x": 1}, {"x": "v" * 10_000}).rescued["x"].example) < 120


def test_the_rest_of_the_row_stays() -> None:
    table = converted({"x": 1, "y": "a"}, {"x": "abc", "y": "b"}).table
    assert table["y"].to_pylist() == ["a", "b"]
    assert converted({"x": 1}, {"x": "a"}).schema.columns["_rescued_data"] == pa.string()


def test_an_odd_value_among_many() -> None:
    values: list[object] = list(range(10_000))
    values[7_531] = "seven"
    kind, column = stored(*values)
    assert (kind, column[7_531], column[7_530], column[7_532]) == ("bigint", None, 7_530, 7_532)
    assert [at for at, left_over in enumerate(rescued_of(*values)) if left_over] == [7_531]


def test_fractions_after_many_whole_numbers() -> None:
    values: list[object] = [*range(9_000), "odd", 0.5]
    kind, column = stored(*values)
    assert (kind, column[8_999:]) == ("double", [8_999.0, None, 0.5])
    assert rescued_of(2**53 + 1, *values)[0] == {"x": 2**53 + 1}


# --- empty and nested -----------------------------------------------------------------------------------------------


def test_an_empty_dict_and_a_struct_without_any_value_are_null() -> None:
    assert stored({}, {"a": 1}, None, {"a": None}, {"n": {}})[1] == [None, {"a": 1}, None, None, None]
    assert stored({"a": 1}, {"n": None, "e": {}})[0] == "struct<a:bigint>"


def test_a_misfit_inside_a_struct_leaves_the_rest_of_it() -> None:
    values = [{"a": {"b": 1, "c": "x"}}, {"a": {"b": "y", "c": "z"}}]
    assert stored(*values)[1] == [{"a": {"b": 1, "c": "x"}}, {"a": {"b": None, "c": "z"}}]
    assert rescued_of(*values) == [None, {"x": {"a": {"b": "y"}}}]
    assert (
        converted({"x": values[0]}, {"x": values[1]}).rescued["x"].example.startswith("'y' in a bigint column (field")
    )


def test_a_misfit_inside_a_list_takes_the_whole_list() -> None:
    assert stored([1], [2, "x"])[1] == [[1], None]
    assert rescued_of([1], [2, "x"]) == [None, {"x": [2, "x"]}]
    assert rescued_of({"l": [1], "b": 1}, {"l": ["x"], "b": 2}) == [None, {"x": {"l": ["x"]}}]


def test_a_list_is_empty_once_its_elements_have_a_type() -> None:
    assert stored([], [1], [])[1] == [None, [1], []]
    assert rescued_of([], [1], []) == [{"x": []}, None, None]
    assert rescued_of({"a": 1, "l": []}, [None]) == [{"x": {"l": []}}, {"x": [None]}]
    assert stored([[], [1]], [[]]) == ("array<array<bigint>>", [[[], [1]], [[]]])
    assert stored([], [None], schema={"x": pa.list_(pa.string())})[1] == [[], [None]]


def test_twenty_levels_are_columns_and_what_lies_deeper_than_32_is_json() -> None:
    def nested(levels: int) -> Any:
        return {"a": nested(levels - 1)} if levels else 1

    assert stored(nested(20))[1] == [nested(20)]
    assert stored(nested(32))[1] == [nested(32)]
    assert stored(nested(33))[1] == [None]
    assert rescued_of(nested(33)) == [{"x": nested(33)}]
    assert rescued_of(nested(150)) == [{"x": nested(150)}]


def test_a_record_nested_without_end_is_no_row() -> None:
    endless: dict[str, Any] = {}
    for _ in range(5_000):
        endless = {"a": endless, "b": 1}
    with pytest.raises(BadRowsError) as caught:
        converted({"x": 1}, {"x": endless})
    assert list(caught.value.reasons) == [1]


# --- names ----------------------------------------------------------------------------------------------------------


def test_a_name_that_differs_only_in_case_is_rescued() -> None:
    conversion = converted({"A": None}, {"a": 1, "A": 2}, {"A": 3}, {"s": {"b": 1, "B": 2}})
    assert rescued(conversion) == [None, {"A": 2}, {"A": 3}, {"s": {"B": 2}}]
    assert conversion.rescued["A"] == Rescue(2, "2 has a name that differs only in case from another one")
    assert rescued(converted({"X": 1}, schema=INT)) == [{"X": 1}]


def test_names_that_differ_only_in_case_from_columns_of_ours_are_rescued() -> None:
    rules = Rules("ts_ms", frozenset({"year"}))
    record = {"YEAR": 1, "TS_MS": 2, "__KEY": 3, "_Rescued_Data": 4, "OFFSET": 5}
    conversion = convert([row(record)], EMPTY, rules, {"offset": pa.array([7])})
    assert rescued(conversion) == [record]
    assert list(conversion.schema.columns) == ["ts_ms", "offset", "_rescued_data"]


def test_beyond_5000_columns_new_fields_are_rescued() -> None:
    many = {f"c{number}": number for number in range(5_001)}
    conversion = converted(many)
    assert rescued(conversion) == [{"c5000": 5_000}]
    assert converted({"c1": 5, "more": 1}, schema=dict(conversion.schema.columns)).rescued.keys() == {"more"}


def test_a_field_named_like_the_rescued_data_goes_inside_them() -> None:
    assert rescued(converted({"_rescued_data": "own"})) == [{"_rescued_data": "own"}]


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({1: "x"}, "its field name 1 is not text"),
        ({"\ud800": 1}, "is not Unicode"),
        ([1], r"it is no object with fields, but \[1\]"),
    ],
)
def test_records_that_cannot_be_rows_are_named_all_at_once(record: Any, reason: str) -> None:
    with pytest.raises(BadRowsError, match=reason) as caught:
        converted({"x": 1}, record, {"x": 2}, record)
    assert list(caught.value.reasons) == [1, 3]


# --- timestamp, key and metadata ------------------------------------------------------------------------------------


def test_the_timestamp_of_kafka_fills_only_what_is_missing() -> None:
    assert converted({"ts_ms": 7}, {}, {"ts_ms": None}).table["ts_ms"].to_pylist() == [7, NOON, None]


@pytest.mark.parametrize(
    ("value", "filled"),
    [
        (1.5, float(NOON)),
        ("2024-01-01", "2024-01-15T12:00:00.000+00:00"),
        (datetime(2024, 1, 1), datetime(2024, 1, 15, 12)),
        (datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 15, 12, tzinfo=UTC)),
        (date(2024, 1, 1), date(2024, 1, 15)),
        (True, None),
    ],
)
def test_the_timestamp_of_kafka_takes_the_form_of_the_column(value: object, filled: object) -> None:
    assert converted({"ts_ms": value}, {}).table["ts_ms"].to_pylist() == [value, filled]
    known = converted({"ts_ms": value}).schema
    later = convert([row({}), row({"ts_ms": value})], known, RULES)
    assert later.table["ts_ms"].to_pylist() == [filled, value]


def test_a_timestamp_of_another_form_is_rescued() -> None:
    conversion = converted({}, {"ts_ms": "2024-01-01"})
    assert conversion.table["ts_ms"].to_pylist() == [NOON, None]
    assert rescued(conversion) == [None, {"ts_ms": "2024-01-01"}]


def test_a_timestamp_of_kafka_beyond_all_time_is_null_where_it_has_no_form() -> None:
    rows = [row({"ts_ms": "2024-01-01"}), row({}, timestamp=2**62)]
    assert convert(rows, EMPTY, RULES).table["ts_ms"].to_pylist() == ["2024-01-01", None]


def test_the_kafka_key_wins_over_a_field_of_its_name_which_is_rescued_where_it_differs() -> None:
    rows = [row({"__key": "own"}, key="kafka"), row({"__key": "same"}, key="same"), row({"__key": "own"}, key=None)]
    conversion = convert(rows, EMPTY, RULES)
    assert conversion.table["__key"].to_pylist() == ["kafka", "same", None]
    assert rescued(conversion) == [{"__key": "own"}, None, {"__key": "own"}]


@pytest.mark.parametrize("key", ["text", 7, 1.5, b"\xff", {"id": 1}])
def test_keys_of_any_kind(key: object) -> None:
    assert convert([row({}, key=key)], EMPTY, RULES).table["__key"].to_pylist() == [key]


def test_a_key_of_another_kind_is_rescued() -> None:
    conversion = convert([row({}, key="a"), row({}, key=7)], EMPTY, RULES)
    assert conversion.table["__key"].to_pylist() == ["a", None]
    assert rescued(conversion) == [None, {"__kafka_key": 7}]


def test_metadata_win_over_fields_which_are_rescued_where_they_differ() -> None:
    extra = {"__offset": pa.array([5, 6]), "__none": pa.nulls(2, pa.string())}
    conversion = convert([row({"__offset": 5}), row({"__offset": "own", "__none": 1})], EMPTY, RULES, extra)
    assert conversion.table["__offset"].to_pylist() == [5, 6]
    assert rescued(conversion) == [None, {"__offset": "own", "__none": 1}]
    assert "__none" not in conversion.schema.columns


def test_metadata_take_the_type_that_their_column_has() -> None:
    conversion = convert([row({})], TableSchema({"n": pa.string()}), RULES, {"n": pa.array([5])})
    assert conversion.schema.columns["n"] == pa.string()
    assert rescued(conversion) == [{"n": 5}]


# --- types that were fixed ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column_type", "value", "as_stored"),
    [
        ("string", 5, "5"),
        ("string", True, "true"),
        ("string", 1.5, "1.5"),
        ("string", math.nan, '"NaN"'),
        ("string", {"a": [1, "ü"]}, '{"a":[1,"ü"]}'),
        ("string", {}, "{}"),
        ("string", Decimal("1.50"), "1.50"),
        ("string", date(2024, 1, 1), "2024-01-01"),
        ("timestamp", "2024-01-15T12:00:00Z", datetime(2024, 1, 15, 12, tzinfo=UTC)),
        ("timestamp", "2024-01-15T14:00:00.123456+02:00", datetime(2024, 1, 15, 12, 0, 0, 123456, UTC)),
        ("timestamp", "2024-01-15 12:00:00", datetime(2024, 1, 15, 12, tzinfo=UTC)),
        ("timestamp_ntz", "2024-01-15T12:00:00", datetime(2024, 1, 15, 12)),
        ("date", "2024-01-15", date(2024, 1, 15)),
        ("decimal(10,2)", 5, Decimal("5.00")),
        ("decimal(10,2)", 0.1, Decimal("0.10")),
        ("decimal(38,0)", 2**70, Decimal(2**70)),
        ("decimal(10,2)", Decimal("1.5"), Decimal("1.50")),
        ("double", 5, 5.0),
        ("bigint", 5.0, 5),
        ("int", 5, 5),
        ("array<string>", [1, "a", None], ["1", "a", None]),
        ("struct<a:timestamp>", {"a": "2024-01-15T12:00:00Z"}, {"a": datetime(2024, 1, 15, 12, tzinfo=UTC)}),
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
        ("bigint", 1.5, 1.5),
        ("bigint", "5", "5"),
        ("int", 2**31, 2**31),
        ("double", True, True),
        ("double", 2**53 + 1, 2**53 + 1),
        ("decimal(10,2)", 0.125, 0.125),
        ("decimal(10,2)", 10**9, 10**9),
        ("decimal(10,2)", math.nan, "NaN"),
        ("decimal(10,2)", True, True),
        ("timestamp", "2024-01-15T12:00:00.1234567Z", "2024-01-15T12:00:00.1234567Z"),
        ("timestamp", "yesterday", "yesterday"),
        ("timestamp", 5, 5),
        ("timestamp_ntz", "2024-01-15T12:00:00Z", "2024-01-15T12:00:00Z"),
        ("date", "2024-01-15T12:00:00", "2024-01-15T12:00:00"),
        ("string", "\ud800", "\ud800"),
        ("struct<a:bigint>", {"a": 1, "b": 2}, {"b": 2}),
        ("array<bigint>", [1.5], [1.5]),
    ],
)
def test_a_column_whose_type_was_fixed_never_grows(column_type: str, value: object, left_over: object) -> None:
    conversion = fixed(f"x:{column_type}", {"x": value})
    assert rescued(conversion) == [{"x": left_over}]
    assert type_name(conversion.schema.columns["x"]) == column_type


def test_rows_are_told_apart_by_their_position_not_their_offset() -> None:
    rows = [Row({"x": 1}, None, NOON, 500), Row({"x": "a"}, None, NOON, 3)]
    assert rescued(convert(rows, EMPTY, RULES)) == [None, {"x": "a"}]
