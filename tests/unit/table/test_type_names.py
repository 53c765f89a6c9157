"""Types by the names of Spark SQL: what is written is read back, and what is wrong says so."""

from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.table.type_names import parse_column_types, parse_type, type_name

NAMES = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "decimal(10,2)": pa.decimal128(10, 2),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "array<bigint>": pa.list_(pa.int64()),
    "struct<a:bigint,`b c`:array<string>>": pa.struct([("a", pa.int64()), ("b c", pa.list_(pa.string()))]),
    "map<string,struct<a:map<string,int>>>": pa.map_(pa.string(), pa.struct([("a", pa.map_(pa.string(), pa.int32()))])),
    "struct<`a``b`:int>": pa.struct([("a`b", pa.int32())]),
    "struct<``:int>": pa.struct([("", pa.int32())]),
}

leaves = st.sampled_from([kind for kind in NAMES.values() if not pa.types.is_nested(kind)])
field_names = st.text(st.characters(codec="utf-8"))


def _map(values: pa.DataType) -> pa.DataType:
    return pa.map_(pa.string(), values)


def _structs(children: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    named = st.tuples(field_names, children)
    return st.lists(named, min_size=1, max_size=4, unique_by=lambda field: field[0].lower()).map(pa.struct)


types = st.recursive(leaves, lambda each: st.one_of(each.map(pa.list_), each.map(_map), _structs(each)), max_leaves=8)


@pytest.mark.parametrize("name", NAMES)
def test_each_type_has_its_name(name: str) -> None:
    assert type_name(NAMES[name]) == name
    assert parse_type(name) == NAMES[name]


@given(types)
def test_what_is_written_is_read_back(kind: pa.DataType) -> None:
    assert parse_type(type_name(kind)) == kind


@pytest.mark.parametrize(
    "kind", [pa.null(), pa.uint64(), pa.struct([]), pa.map_(pa.int64(), pa.bool_()), pa.time64("us")]
)
def test_a_type_that_no_column_has_is_refused(kind: pa.DataType) -> None:
    with pytest.raises(ValueError, match="no column can have the type"):
        type_name(kind)


def test_the_types_of_columns() -> None:
    assert parse_column_types(" ") == {}
    assert parse_column_types("temp:double, price:decimal(10,2),tags:array<struct<a:int,b:string>>,`a,b`:bigint") == {
        "temp": pa.float64(),
        "price": pa.decimal128(10, 2),
        "tags": pa.list_(pa.struct([("a", pa.int32()), ("b", pa.string())])),
        "a,b": pa.int64(),
    }


@pytest.mark.parametrize(
    ("parse", "text", "reason"),
    [
        (parse_type, "float", "'float' is not a type. Types are boolean, int,"),
        (parse_type, "", "a type is missing at the end of ''"),
        (parse_type, "array", "'<' is missing after array, as in array<string>"),
        (parse_type, "array<string", "'>' is missing after the type of the items of array"),
        (parse_type, "map<string,int", "'>' is missing after the type of the items of map"),
        (parse_type, "map<string>", "',' is missing after the type of the keys, as in map<string,double>"),
        (parse_column_types, "a:map<int,double>", "keys of a map must be string, as in map<string,double>, in "),
        (parse_type, "array<string>>", "'>' is unexpected in"),
        (parse_type, "decimal(10)", r"'decimal' is not a type. Types are .*decimal\(p,s\)"),
        (parse_type, "decimal(39,2)", r"decimal\(39,2\) is not possible: 1 to 38 digits"),
        (parse_type, "decimal(2,3)", "at most as many of them after the point"),
        (parse_type, "struct<>", "a name is missing before '>'"),
        (parse_type, "struct<a>", "':' is missing after the name 'a'"),
        (parse_type, "struct<`a:int>", "a backtick is not closed"),
        (parse_type, "struct<\ud800:int>", "is not Unicode"),
        (parse_type, "struct<a:int,a:int>", "the name 'a' occurs twice"),
        (parse_column_types, "temp", "':' is missing after the name 'temp'"),
        (parse_column_types, ":int", "a name is missing before ':'"),
        (parse_column_types, "a:int,,b:int", "a name is missing before ','"),
        (parse_column_types, "o:struct<a:int,A:int>", "the name 'A' occurs twice"),
        (parse_column_types, "a:int b:int", "'int b' is not a type"),
    ],
)
def test_what_is_wrong_with_a_type_or_the_types_of_columns_is_said(
    parse: Callable[[str], object], text: str, reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        parse(text)


def test_case_and_spaces_do_not_matter_but_in_names() -> None:
    assert parse_type(" Struct < A : Decimal ( 10 , 2 ) , b : BIGINT > ") == pa.struct(
        [("A", pa.decimal128(10, 2)), ("b", pa.int64())]
    )
    assert parse_type("struct<a:int,A:int>") == pa.struct([("a", pa.int32()), ("A", pa.int32())])
