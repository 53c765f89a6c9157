"""Nested values, odd names, and the columns that are not the record's own."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from app.bad_records.refusals import BadRowsError
from app.convert.columns import infer
from app.convert.rows import Rules, convert
from app.convert.values import Rescue, joined
from app.reason_texts import Reason
from app.table.schema import EMPTY
from app.table.type_names import scalar_count
from tests.support.batches import NOON, row
from tests.unit.convert.conversions import INT, RULES, converted, rescued, rescued_of, stored

# --- empty and nested -----------------------------------------------------------------------------------------------


def test_an_empty_dict_and_a_struct_without_any_value_are_null() -> None:
    assert stored({}, {"a": 1}, None, {"a": None}, {"n": {}})[1] == [None, {"a": 1}, None, None, None]
    assert stored({"a": 1}, {"n": None, "e": {}})[0] == "struct<a:bigint>"
    assert stored([1], {"a": None}, [{"a": {}}]) == ("array<bigint>", [[1], None, [None]])
    assert rescued_of([1], {"a": None}, [{"a": {}}]) == [None] * 3


def test_a_misfit_inside_a_struct_leaves_the_rest_of_it() -> None:
    values = [{"a": {"b": 1, "c": "x"}}, {"a": {"b": "y", "c": "z"}}]
    assert stored(*values)[1] == [{"a": {"b": 1, "c": "x"}}, {"a": {"b": None, "c": "z"}}]
    assert rescued_of(*values) == [None, {"x": {"a": {"b": "y"}}}]
    example = converted({"x": values[0]}, {"x": values[1]}).rescued["x"].example
    assert example == "a value of type str in a bigint column (field 'b') (field 'a')"


def test_a_misfit_inside_a_list_takes_the_whole_list() -> None:
    assert stored([1], [2, "x"])[1] == [[1], None]
    assert rescued_of([1], [2, "x"]) == [None, {"x": [2, "x"]}]
    assert rescued_of({"l": [1], "b": 1}, {"l": ["x"], "b": 2}) == [None, {"x": {"l": ["x"]}}]


def test_a_list_is_empty_once_its_elements_have_a_type() -> None:
    assert stored([], [1], [])[1] == [None, [1], []]
    assert rescued_of([], [1], []) == [None, None, None]
    assert rescued_of({"a": 1, "l": [[], {}]}, [None], 1) == [None, {"x": [None]}, {"x": 1}]
    assert stored([[], [1]], [[]]) == ("array<array<bigint>>", [[[], [1]], [[]]])
    assert stored([], [None], schema={"x": pa.list_(pa.string())})[1] == [[], [None]]


def test_what_is_very_deep_is_rescued_without_a_type_of_all_its_levels() -> None:
    """Arrow would take 250 MB for the type of each of these fields."""
    deep: dict[str, Any] = {}
    for _ in range(900):
        deep = {"a": deep, "b": 1}
    assert infer([{"x": deep}]) is None
    assert infer([deep]) is None
    conversion = converted({"n": 1, "x": deep, "y": deep})
    assert conversion.table.column_names[0] == "n"


def test_twenty_levels_are_columns_and_what_lies_deeper_than_32_is_json() -> None:
    def nested(levels: int) -> Any:
        return {"a": nested(levels - 1)} if levels else 1

    assert stored(nested(20))[1] == [nested(20)]
    assert stored(nested(32))[1] == [nested(32)]
    assert stored(nested(33))[1] == [None]
    assert rescued_of(nested(33)) == [{"x": nested(33)}]
    assert rescued_of(nested(150)) == [{"x": nested(150)}]


def test_not_even_thousands_of_levels_lose_anything() -> None:
    deep: dict[str, Any] = {}
    for _ in range(5_000):
        deep = {"a": deep, "b": 1}
    conversion = converted({"x": 1}, {"x": deep})
    assert conversion.table["x"].to_pylist() == [1, None]
    kept = conversion.table["_rescued_data"].to_pylist()
    assert kept == [None, '{"x":' + '{"a":' * 5_000 + "{}" + ',"b":1}' * 5_000 + "}"]


# --- names ----------------------------------------------------------------------------------------------------------


def test_a_name_that_differs_only_in_case_is_rescued() -> None:
    conversion = converted({"A": None}, {"a": 1, "A": 2}, {"A": 3}, {"s": {"b": 1, "B": 2}})
    assert rescued(conversion) == [None, {"A": 2}, {"A": 3}, {"s": {"B": 2}}]
    assert conversion.rescued["A"] == Rescue(
        2, Reason("a value of type int has a name that differs only in case from another name")
    )
    assert rescued(converted({"X": 1}, schema=INT)) == [{"X": 1}]


def test_names_that_differ_only_in_case_from_columns_of_ours_are_rescued() -> None:
    rules = Rules("ts_ms", frozenset({"year"}))
    record = {"YEAR": 1, "TS_MS": 2, "__KEY": 3, "_Rescued_Data": 4, "OFFSET": 5}
    conversion = convert([row(record)], EMPTY, rules, {"offset": pa.array([7])})
    assert rescued(conversion) == [record]
    assert list(conversion.schema.columns) == ["ts_ms", "offset", "_rescued_data"]


def test_beyond_5000_columns_new_fields_are_rescued() -> None:
    known = {f"c{number}": pa.int64() for number in range(4_998)} | {"o": pa.struct([("a", pa.int64())])}
    conversion = converted({"c1": 5, "more": 1, "o": {"a": 1, "b": 2}, "even": 2}, schema=known)
    assert rescued(conversion) == [{"o": {"b": 2}, "even": 2}]
    assert {"more", "even", "ts_ms"} & conversion.schema.columns.keys() == {"more", "ts_ms"}
    again = converted({"c1": 6, "yet": {"x": 1}}, schema=dict(conversion.schema.columns))
    assert rescued(again) == [{"yet": {"x": 1}}]


def test_one_record_adds_a_thousand_columns_at_most() -> None:
    record = {f"id {number}": number for number in range(10_000)}
    conversion = converted({"x": 1}, {"none": None, **record}, {"id 9999": 1})
    own = {"ts_ms", "_rescued_data"}
    assert [name for name in conversion.schema.columns if name not in own] == ["x", *list(record)[:999]]
    assert rescued(conversion) == [None, dict(list(record.items())[999:]), {"id 9999": 1}]


@pytest.mark.parametrize(
    "nested",
    [
        lambda ids: {"o": ids},
        lambda ids: {"o": {"deeper": {"still": ids}}},
        lambda ids: {f"o{number}": dict(list(ids.items())[number::4]) for number in range(4)},
    ],
)
def test_names_inside_objects_count_as_well(nested: Callable[[dict[str, int]], dict[str, Any]]) -> None:
    record = nested({f"id {number}": number for number in range(3_000)})
    conversion = converted(record)
    own = {"ts_ms", "__key", "_rescued_data"}
    assert sum(scalar_count(kind) for name, kind in conversion.schema.columns.items() if name not in own) == 1_000
    [kept] = conversion.table.select([name for name in conversion.table.column_names if name not in own]).to_pylist()
    assert joined(kept, rescued(conversion)[0]) == record


def test_a_list_of_objects_that_has_no_place_is_rescued_whole() -> None:
    known = {"o": pa.list_(pa.struct([("a", pa.int64())]))}
    value = [{"a": 0}, *({f"id {number}": number} for number in range(1_001))]
    conversion = converted({"o": value}, {"o": [{"a": 1}]}, {"x": 1}, schema=known)
    assert conversion.table["o"].to_pylist() == [None, [{"a": 1}], None]
    assert rescued(conversion) == [{"o": value}, None, None]
    assert "x" in conversion.schema.columns, "the place that the list did not take is there for others"


def test_a_list_that_would_take_gigabytes_is_rescued() -> None:
    wide = {f"f{number}": number for number in range(900)}
    value = [wide, *({"f0": 1} for _ in range(20_000))]
    conversion = converted({"o": value}, {"o": [wide]})
    assert conversion.table["o"].to_pylist() == [None, [wide]]
    assert rescued(conversion) == [{"o": value}, None]


def test_records_with_names_of_their_own_do_not_take_the_square_of_their_number() -> None:
    flat = [{f"a{number}": number} for number in range(20_000)]
    nested = [{"o": {"p": {f"b{number}": number}}} for number in range(20_000)]
    # A pool that nothing else uses: the peak of the default one is that of all earlier tests in the process.
    default, pool = pa.default_memory_pool(), pa.system_memory_pool()
    pa.set_memory_pool(pool)
    try:
        conversion = converted(*flat, *nested)
    finally:
        pa.set_memory_pool(default)
    assert 2**20 < pool.max_memory() < 2**30
    found = [{k: v for k, v in row.items() if v is not None} for row in conversion.table.slice(19_999, 2).to_pylist()]
    assert [row["_rescued_data"] for row in found] == ['{"a19999":19999}', '{"o":{"p":{"b0":0}}}']


@pytest.mark.parametrize("name", ["n" * 256, "ü" * 128, "", "\0", "a\0b"])
def test_names_too_long_for_catalogs_and_names_that_readers_take_for_another_one_are_rescued(name: str) -> None:
    record = {name: 1, "o": {name: 1, "b": {name: {"x": 1}}, "l": [{name: 1}]}}
    conversion = converted({**record, "c0": 2, "n" * 255: 3})
    assert rescued(conversion) == [record]
    assert list(conversion.schema.columns) == ["c0", "n" * 255, "ts_ms", "_rescued_data"]
    assert converted({name: 1}, schema={name: pa.int64()}).rescued == {}, "a table that has it keeps it"


def test_more_levels_of_lists_than_readers_take_are_rescued() -> None:
    def lists(levels: int) -> Any:
        return 1 if not levels else [lists(levels - 1)]

    conversion = converted({"x": lists(12), "y": lists(13), "z": {"a": [{"b": lists(11), "c": lists(12)}]}})
    assert conversion.table["x"].to_pylist() == [lists(12)]
    assert rescued(conversion) == [{"y": lists(13), "z": {"a": [{"b": lists(11), "c": lists(12)}]}}]


def test_a_field_named_like_the_rescued_data_goes_inside_them() -> None:
    assert rescued(converted({"_rescued_data": "own"})) == [{"_rescued_data": "own"}]


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({1: "x"}, "its field name 1 is not text"),
        ({"\ud800": 1}, "its field name '\\ud800' is not Unicode"),
        ([1], "it is not an object with fields, but [1]"),
    ],
)
def test_records_that_cannot_be_rows_are_named_all_at_once(record: Any, reason: str) -> None:
    with pytest.raises(BadRowsError) as caught:
        converted({"x": 1}, record, {"x": 2}, record)
    assert {row: found.whole for row, found in caught.value.reasons.items()} == {1: reason, 3: reason}


# --- timestamp, key and metadata ------------------------------------------------------------------------------------


def test_the_timestamp_of_kafka_fills_only_what_is_missing() -> None:
    conversion = converted({"ts_ms": 7}, {}, {"ts_ms": None}, {"ts_ms": "2024-01-01"})
    assert conversion.table["ts_ms"].to_pylist() == [7, NOON, None, None]
    assert rescued(conversion) == [None, None, None, {"ts_ms": "2024-01-01"}]


@pytest.mark.parametrize("beside", [{"ts_ms": 7}, {"ts_ms": "2024-01-01"}, {}])
def test_where_kafka_has_no_timestamp_or_none_of_the_column_s_form_nothing_is_filled_in(beside: dict[str, Any]) -> None:
    table = convert([row({"v": 1}, timestamp=-1), row(beside)], EMPTY, RULES).table
    assert table["ts_ms"].to_pylist() == [None, beside.get("ts_ms", NOON)]
    beyond = convert([row({"ts_ms": "2024-01-01"}), row({}, timestamp=2**62)], EMPTY, RULES).table
    assert beyond["ts_ms"].to_pylist() == ["2024-01-01", None]


def test_the_kafka_key_wins_over_a_field_of_its_name_which_is_rescued_where_it_differs() -> None:
    rows = [row({"__key": "own"}, key="kafka"), row({"__key": "same"}, key="same"), row({"__key": "own"}, key=None)]
    conversion = convert(rows, EMPTY, RULES)
    assert conversion.table["__key"].to_pylist() == ["kafka", "same", None]
    assert rescued(conversion) == [{"__key": "own"}, None, {"__key": "own"}]


def test_metadata_win_over_fields_which_are_rescued_where_they_differ() -> None:
    extra = {"__offset": pa.array([5, 6]), "__none": pa.nulls(2, pa.string())}
    conversion = convert([row({"__offset": 5}), row({"__offset": "own", "__none": 1})], EMPTY, RULES, extra)
    assert conversion.table["__offset"].to_pylist() == [5, 6]
    assert rescued(conversion) == [None, {"__offset": "own", "__none": 1}]
    assert "__none" not in conversion.schema.columns
