"""Folder names, file names and the comparison of partition specs, against literal strings."""

import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.bad_rows import BadRowsError
from app.errors import ConfigError
from app.partitioning import (
    HIVE_NULL,
    QUIX_NULL,
    PartitionSpec,
    check_spec,
    data_key,
    escape,
    folder,
    group_ids,
    is_data_file,
    null_value_of,
    partition_columns,
    spec_of_key,
    too_long,
    unescape,
)
from tests.unit.batches import NOON, row, spec

ESCAPED = {
    '"': "%22",
    "#": "%23",
    "%": "%25",
    "'": "%27",
    "*": "%2A",
    "/": "%2F",
    ":": "%3A",
    "=": "%3D",
    "?": "%3F",
    "\\": "%5C",
    "{": "%7B",
    "[": "%5B",
    "]": "%5D",
    "^": "%5E",
    "\x00": "%00",
    "\x01": "%01",
    "\n": "%0A",
    "\x1f": "%1F",
    "\x7f": "%7F",
}


def folders(values: list[dict[str, Any]], *columns: str, **options: str) -> list[str]:
    """The folders that these records go to."""
    arrays = partition_columns([row(value) for value in values], spec(*columns, **options))
    rows = zip(*(array.to_pylist() for array in arrays), strict=True)
    return [folder(dict(zip(columns, found, strict=True))) for found in rows]


def refusals(values: list[dict[str, Any]], *columns: str) -> dict[int, str]:
    """Which of these records have no folder, and why."""
    with pytest.raises(BadRowsError) as caught:
        folders(values, *columns)
    return caught.value.reasons


# --- values ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("NYC", "x=NYC"),
        (" two words ", "x= two words "),
        ("münchen ☃", "x=münchen ☃"),
        ("a/b", "x=a%2Fb"),
        ("..", "x=.."),
        ("2024-01-15T12:00:00", "x=2024-01-15T12%3A00%3A00"),
        (True, "x=True"),
        (False, "x=False"),
        (0, "x=0"),
        (-7, "x=-7"),
        (2**63 - 1, "x=9223372036854775807"),
        (1.0, "x=1.0"),
        (0.1, "x=0.1"),
        (1e30, "x=1e+30"),
        (math.inf, "x=inf"),
        (Decimal("12.50"), "x=12.50"),
        (date(2024, 1, 5), "x=2024-01-05"),
        (datetime(2024, 1, 5, 6), "x=2024-01-05 06%3A00%3A00"),
        (b"abc", "x=abc"),
        (b"\xff/", "x=%5Cxff%2F"),
        (["a", 1][:1], "x=%5B%27a%27%5D"),
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


@pytest.mark.parametrize("nothing", [{"x": None}, {}, {"x": ""}])
def test_the_null_folder_takes_only_the_rows_without_a_value(nothing: dict[str, Any]) -> None:
    assert folders([{"x": "a"}, nothing, {"x": "b"}], "x") == ["x=a", f"x={HIVE_NULL}", "x=b"]


def test_a_not_a_number_among_numbers_goes_to_the_null_folder() -> None:
    assert folders([{"x": 1.5}, {"x": math.nan}], "x") == ["x=1.5", f"x={HIVE_NULL}"]


VALUES: tuple[Any, ...] = (
    1,
    1.5,
    True,
    "1",
    "",
    None,
    math.nan,
    2**70,
    b"\xff",
    b"1",
    Decimal("1.50"),
    date(2024, 1, 5),
    [1],
    {},
    {"a": 1},
)


@settings(deadline=None)
@given(st.lists(st.sampled_from(VALUES), min_size=1, max_size=6))
def test_a_folder_never_depends_on_the_other_records(values: list[Any]) -> None:
    assert folders([{"x": value} for value in values], "x") == [folders([{"x": value}], "x")[0] for value in values]


def test_records_of_other_shapes_stay_as_they_are() -> None:
    assert folders([{"x": {"a": 1}}, {"x": {"b": 2}}], "x") == ["x=%7B%27a%27%3A 1}", "x=%7B%27b%27%3A 2}"]


def test_text_that_is_not_unicode_is_told_with_all_its_rows() -> None:
    told = refusals([{"x": "\ud800"}, {"x": "a"}, {}, {"x": "b\udfff"}], "x")
    assert list(told) == [0, 3]
    assert "partition column 'x' has a str that is no text" in told[0]
    told[0].encode()


def test_a_number_that_python_does_not_write_out_is_told() -> None:
    assert "partition column 'x' has a int that is no text" in refusals([{"x": 1}, {"x": 10**5_000}], "x")[1]


def test_a_missing_value_leaves_whole_numbers_whole() -> None:
    assert folders([{"x": 1}, {}, {"x": None}], "x") == ["x=1", f"x={HIVE_NULL}", f"x={HIVE_NULL}"]


def test_the_key_can_be_a_partition_column() -> None:
    rows = [row({"__key": "of the record"}, key="d1"), row({}, key=None), row({}, key=b"d2")]
    assert partition_columns(rows, spec("__key"))[0].to_pylist() == ["d1", HIVE_NULL, "d2"]


# --- time columns ---------------------------------------------------------------------------------------------------


def test_time_columns_are_zero_padded_parts_in_utc() -> None:
    early = {"ts_ms": "2024-02-03T04:30:00+02:00"}
    assert folders([early], "year", "month", "day", "hour") == ["year=2024/month=02/day=03/hour=02"]


def test_time_columns_come_from_the_configured_column() -> None:
    value = {"ts_ms": 0, "when": NOON}
    assert folders([value], "year", "hour", timestamp_column="when") == ["year=2024/hour=12"]


def test_time_columns_keep_their_place_among_the_others() -> None:
    assert folders([{"place": "NYC", "ts_ms": NOON}], "month", "place", "year") == ["month=01/place=NYC/year=2024"]


def test_a_derived_time_column_wins_over_one_of_the_record() -> None:
    assert folders([{"year": 1999, "ts_ms": NOON}], "year") == ["year=2024"]


def test_without_a_timestamp_the_one_of_kafka_counts() -> None:
    assert folders([{}], "year", "month", "day", "hour") == ["year=2024/month=01/day=15/hour=12"]


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


def test_the_timestamp_column_itself_can_be_a_folder() -> None:
    assert folders([{"ts_ms": 5}, {}, {"ts_ms": None}], "ts_ms") == ["ts_ms=5", f"ts_ms={NOON}", f"ts_ms={HIVE_NULL}"]


def test_bad_rows_of_all_columns_are_told_at_once_in_their_order() -> None:
    values: list[dict[str, Any]] = [
        {"x": "\ud800"},
        {"ts_ms": "2024-01-01"},
        {"ts_ms": "yesterday", "x": "\ud800"},
        {"ts_ms": True},
    ]
    told = refusals(values, "x", "year")
    assert list(told) == [0, 2, 3]
    assert "no text" in told[0]
    assert "no ISO-8601 timestamp" in told[2]


def test_a_bad_timestamp_does_not_matter_where_no_time_column_is_wanted() -> None:
    assert folders([{"ts_ms": "yesterday", "x": 1}], "x") == ["x=1"]


# --- escaping -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("character", "code"), ESCAPED.items())
def test_what_hive_and_spark_escape_is_escaped_both_ways(character: str, code: str) -> None:
    assert escape(f"a{character}b") == f"a{code}b"
    assert unescape(f"a{code}b") == f"a{character}b"


def test_nothing_else_is_escaped() -> None:
    printable = {chr(code) for code in range(32, 127)}
    assert {character for character in printable if escape(character) != character} == set("\"#%'*/:=?\\{[]^")
    assert escape("ä☃𝄞\x80") == "ä☃𝄞\x80"


def test_lower_case_escapes_of_other_writers_are_understood() -> None:
    assert unescape("a%2fb") == "a/b"


def test_a_lone_percent_sign_of_another_writer_stays() -> None:
    assert unescape("50%") == "50%"
    assert unescape("%zz") == "%zz"


@settings(deadline=None)
@given(st.text())
def test_escaping_loses_nothing(text: str) -> None:
    assert unescape(escape(text)) == text


def test_column_names_are_escaped_too() -> None:
    assert folder({"a=b/c": "1"}) == "a%3Db%2Fc=1"


def test_no_partition_columns_means_no_folder() -> None:
    assert folder({}) == ""


# --- names and keys -------------------------------------------------------------------------------------------------


def test_a_key_is_root_folders_and_name() -> None:
    assert data_key("data/t", {"year": "2024", "place": "a/b"}, "x.parquet") == "data/t/year=2024/place=a%2Fb/x.parquet"
    assert data_key("data/t", {}, "x.parquet") == "data/t/x.parquet"


@pytest.mark.parametrize(("length", "fits"), [(253, True), (254, False)])
def test_a_folder_name_may_have_255_bytes(length: int, fits: bool) -> None:
    assert (too_long("t", {"x": "v" * length}, "n") is None) is fits


@pytest.mark.parametrize(
    ("value", "fits"), [("ü" * 126, True), ("ü" * 127, False), ("/" * 84, True), ("/" * 85, False)]
)
def test_a_folder_name_is_counted_in_bytes_as_it_is_stored(value: str, fits: bool) -> None:
    assert (too_long("t", {"x": value}, "n") is None) is fits


def test_a_folder_name_that_is_too_long_is_told_with_its_column() -> None:
    assert too_long("t", {"ok": "1", "x": "v" * 300}, "n") == (
        "partition column 'x' needs a folder name of 302 bytes, 255 are allowed"
    )


@pytest.mark.parametrize(("root", "fits"), [("r" * 202, True), ("r" * 203, False)])
def test_a_key_may_have_1024_bytes(root: str, fits: bool) -> None:
    values = dict.fromkeys(("a", "b", "c", "d"), "v" * 200)  # 4 x 202 bytes and their slashes
    assert len(data_key("r" * 202, values, "file.name")) == 1024
    assert (too_long(root, values, "file.name") is None) is fits


def test_a_key_that_is_too_long_is_told() -> None:
    assert too_long("r" * 1100, {}, "n") == "the file's key has 1102 bytes, 1024 are allowed"


# --- groups ---------------------------------------------------------------------------------------------------------


def test_rows_with_equal_values_have_the_same_number() -> None:
    first, second = pa.array(["a", "b", "a", "a"]), pa.array([1, 1, 1, 2])
    assert group_ids([first, second]).to_pylist() == [0, 1, 0, 2]


def test_values_that_look_alike_when_joined_stay_apart() -> None:
    first, second = pa.array(["a-b", "a", "a", ""]), pa.array(["c", "b-c", "", "a"])
    assert group_ids([first, second]).to_pylist() == [0, 1, 2, 3]


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc"), st.integers(0, 3)), min_size=1))
def test_numbers_stand_for_the_distinct_tuples_in_the_order_they_are_first_seen(
    rows: list[tuple[str, str, int]],
) -> None:
    seen = list(dict.fromkeys(rows))
    columns = [pa.array(column) for column in zip(*rows, strict=True)]
    assert group_ids(columns).to_pylist() == [seen.index(values) for values in rows]


# --- existing tables ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "columns", "values"),
    [
        ("data/t/year=2024/place=a%2Fb/data_1.parquet", ("year", "place"), ("2024", "a/b")),
        ("data/t/x=1=2/part-0.parquet", ("x",), ("1=2",)),
        ("data/t/x=/part-0.parquet", ("x",), ("",)),
        ("data/t/a%3Db=1/part-0.parquet", ("a=b",), ("1",)),
        ("data/t/part-0.parquet", (), ()),
        ("data/t/part=0.parquet", (), ()),
        ("data/t/batch-7/x=1/part-0.parquet", ("x",), ("1",)),
    ],
)
def test_the_spec_is_read_from_a_key(key: str, columns: tuple[str, ...], values: tuple[str, ...]) -> None:
    assert spec_of_key(key, "data/t") == (columns, values)


@settings(deadline=None)
@given(st.dictionaries(st.text(min_size=1), st.text(), max_size=4))
def test_the_spec_of_a_key_we_wrote_is_read_back(values: dict[str, str]) -> None:
    key = data_key("data/t", values, "x.parquet")
    assert spec_of_key(key, "data/t") == (tuple(values), tuple(values.values()))


@pytest.mark.parametrize(
    ("key", "is_data"),
    [
        ("data/t/data_1.parquet", True),
        ("data/t/year=2024/part-0.parquet", True),
        ("data/t/__key=d1/part-0.parquet", True),
        ("data/t/_journal/x.parquet", False),
        ("data/t/year=2024/_temporary/0/part-0.parquet", False),
        ("data/t/year=2024/.upload-1.parquet", False),
        ("data/t/year=2024/_SUCCESS", False),
        ("data/t/schema.json", False),
    ],
)
def test_only_visible_parquet_is_data(key: str, is_data: bool) -> None:
    assert is_data_file(key, "data/t") is is_data


def test_a_hidden_folder_above_the_table_hides_nothing() -> None:
    assert is_data_file("_lake/.t/data_1.parquet", "_lake/.t")


def test_equal_specs_match() -> None:
    assert check_spec(("year", "place"), [("year", "place")], "the table") is None
    assert check_spec((), [()], "the table") is None
    assert check_spec(("year",), [], "the table") is None


@pytest.mark.parametrize(
    ("configured", "existing", "both"),
    [
        (("year",), ("year", "month"), ("[year, month]", "HIVE_COLUMNS says [year]", "HIVE_COLUMNS=year,month")),
        (("place",), ("year",), ("[year]", "HIVE_COLUMNS says [place]", "HIVE_COLUMNS=year")),
        (("year",), (), ("[] (no partitioning)", "HIVE_COLUMNS says [year]", "HIVE_COLUMNS= ")),
        ((), ("year",), ("[year]", "HIVE_COLUMNS says [] (no partitioning)", "HIVE_COLUMNS=year")),
    ],
)
def test_other_columns_are_refused_with_both_specs(
    configured: tuple[str, ...], existing: tuple[str, ...], both: tuple[str, ...]
) -> None:
    with pytest.raises(ConfigError) as caught:
        check_spec(configured, [existing], "the table at s3://lake/data/t")
    message = str(caught.value)
    assert "the table at s3://lake/data/t is partitioned by" in message
    assert all(words in message for words in both)
    assert "TABLE_NAME" in message


def test_virtual_columns_are_levels_of_the_tree_and_no_folders() -> None:
    tree = PartitionSpec(("year", "place"), "ts_ms", HIVE_NULL, ("year", "driver", "place"))
    assert tree.virtual == ("driver",)
    assert folder(dict.fromkeys(tree.columns, "x")) == "year=x/place=x"
    assert spec("year").order == ("year",)
    assert spec("year").virtual == ()


@pytest.mark.parametrize(
    ("configured", "existing", "advice"),
    [
        (("year",), ("year", "place"), "HIVE_COLUMNS=year,place,~driver "),  # folders
        (("year",), ("year", "driver"), "HIVE_COLUMNS=year,driver "),
        (("year", "driver"), ("driver", "place"), "HIVE_COLUMNS=~driver,place "),  # a catalog's tree
    ],
)
def test_the_advice_keeps_virtual_columns(configured: tuple[str, ...], existing: tuple[str, ...], advice: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_spec(configured, [existing], "the table", ("driver",))
    assert advice in str(caught.value)


def test_one_file_with_another_spec_is_enough_to_refuse() -> None:
    with pytest.raises(ConfigError, match="no partitioning"):
        check_spec(("year",), [("year",), ()], "the table")


def test_another_order_is_a_warning_with_both_orders() -> None:
    warning = check_spec(("place", "year"), [("year", "place")], "the table")
    assert warning is not None
    assert "[year, place]" in warning
    assert "[place, year]" in warning


@pytest.mark.parametrize(
    ("values", "null_value"),
    [
        (["2024", QUIX_NULL], QUIX_NULL),
        (["2024", HIVE_NULL], HIVE_NULL),
        (["2024", "None", ""], None),
        ([], None),
        ([HIVE_NULL, QUIX_NULL], QUIX_NULL),
    ],
)
def test_the_null_folder_of_a_table_is_recognised(values: list[str], null_value: str | None) -> None:
    assert null_value_of(values) == null_value
