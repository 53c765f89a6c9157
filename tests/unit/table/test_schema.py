"""The schema of a table: merging in any order gives the same types, and its document is read back or refused."""

import json
from itertools import permutations
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.table.schema import EMPTY, TableSchema
from app.table.type_names import parse_type

LEAVES = [
    "boolean",
    "int",
    "bigint",
    "double",
    "decimal(38,18)",
    "string",
    "binary",
    "date",
    "timestamp",
    "timestamp_ntz",
]
NUMBERS = st.sampled_from([pa.int32(), pa.int64(), pa.float64()])


def _struct(fields: dict[str, pa.DataType]) -> pa.DataType:
    return pa.struct(list({name.lower(): kind for name, kind in fields.items()}.items()))


# One kind of leaf per column name, so that any two types of a column are compatible.
leaf = {"n": NUMBERS, "s": st.just(pa.string()), "m": NUMBERS, "b": st.just(pa.bool_())}


def _fields(leaves: dict[str, st.SearchStrategy[pa.DataType]]) -> st.SearchStrategy[dict[str, pa.DataType]]:
    def shuffled(fields: dict[str, pa.DataType]) -> st.SearchStrategy[dict[str, pa.DataType]]:
        return st.permutations(list(fields.items())).map(dict)

    return st.fixed_dictionaries({}, optional=leaves).flatmap(shuffled)


def _structs(leaves: dict[str, st.SearchStrategy[pa.DataType]]) -> st.SearchStrategy[pa.DataType]:
    return _fields(leaves).filter(bool).map(lambda fields: pa.struct(list(fields.items())))


inner = leaf | {"list": NUMBERS.map(pa.list_), "struct": _structs(leaf)}
schemas = _fields(inner | {"outer": _structs(inner), "structs": _structs(inner).map(pa.list_)}).map(TableSchema)
any_type = st.recursive(
    st.sampled_from(LEAVES).map(parse_type),
    lambda types: st.one_of(types.map(pa.list_), st.dictionaries(st.text("aAb"), types, min_size=1).map(_struct)),
    max_leaves=5,
)


def types(schema: TableSchema) -> dict[str, Any]:
    """The types without the order of columns and fields."""
    return {name: _unordered(kind) for name, kind in schema.columns.items()}


def _unordered(kind: pa.DataType) -> Any:
    if pa.types.is_struct(kind):
        return {field.name: _unordered(field.type) for field in kind}
    return [_unordered(kind.value_type)] if pa.types.is_list(kind) else kind


def schema(**columns: str) -> TableSchema:
    return TableSchema({name: parse_type(kind) for name, kind in columns.items()})


@given(schemas, schemas)
def test_the_order_of_merging_does_not_matter(one: TableSchema, other: TableSchema) -> None:
    assert types(one.merge(other)) == types(other.merge(one))


@given(schemas, schemas, schemas)
def test_nor_does_their_grouping(one: TableSchema, two: TableSchema, three: TableSchema) -> None:
    assert types(one.merge(two).merge(three)) == types(one.merge(two.merge(three)))


@given(schemas, schemas)
def test_merging_again_changes_nothing(one: TableSchema, other: TableSchema) -> None:
    assert one.merge(one) == one
    merged = one.merge(other)
    assert merged.merge(other) == merged.merge(one) == merged


@given(st.dictionaries(st.text("aAbB.", max_size=2), any_type), st.dictionaries(st.text("aAbB.", max_size=2), any_type))
def test_no_column_is_lost_and_what_exists_keeps_its_place(
    ours: dict[str, pa.DataType], theirs: dict[str, pa.DataType]
) -> None:
    merged = TableSchema(ours).merge(TableSchema(theirs))
    assert list(merged.columns)[: len(ours)] == list(ours)
    assert {name.lower() for name in merged.columns} == {name.lower() for name in (*ours, *theirs)}


@pytest.mark.parametrize(
    ("ours", "theirs", "merged"),
    [
        ("bigint", "double", "double"),
        ("int", "bigint", "bigint"),
        ("boolean", "bigint", "boolean"),
        ("date", "timestamp", "date"),
        ("timestamp_ntz", "timestamp", "timestamp_ntz"),
        ("decimal(10,2)", "double", "decimal(10,2)"),
        ("decimal(10,2)", "decimal(38,18)", "decimal(10,2)"),
        ("array<bigint>", "array<double>", "array<double>"),
        ("array<bigint>", "bigint", "array<bigint>"),
        ("map<string,struct<a:bigint>>", "map<string,struct<b:int>>", "map<string,struct<a:bigint,b:int>>"),
        *((one, two, one) for one, two in permutations(["map<string,int>", "struct<a:int>", "array<int>"], 2)),
        ("struct<a:bigint,b:string>", "struct<c:date,b:bigint,a:double>", "struct<a:double,b:string,c:date>"),
        ("struct<a:bigint>", "struct<A:double>", "struct<a:bigint>"),
        ("array<struct<a:int>>", "array<struct<a:bigint,b:int>>", "array<struct<a:bigint,b:int>>"),
    ],
)
def test_two_types_of_a_column(ours: str, theirs: str, merged: str) -> None:
    assert schema(x=ours).merge(schema(x=theirs)) == schema(x=merged)


def test_new_columns_come_last_and_names_that_differ_in_case_are_not_added() -> None:
    assert list(schema(b="int", a="int").merge(schema(c="int", A="int", C="int")).columns) == ["b", "a", "c"]


@given(st.dictionaries(st.text(st.characters(codec="utf-8")), any_type).map(TableSchema))
def test_a_document_is_read_back(written: TableSchema) -> None:
    read = TableSchema.from_document(json.loads(json.dumps(written.to_document())))
    assert read == written
    assert list(read.columns) == list(written.columns)


def test_the_document_is_what_it_says() -> None:
    assert schema(a="bigint", b="array<string>").to_document() == {
        "version": 1,
        "columns": [{"name": "a", "type": "bigint"}, {"name": "b", "type": "array<string>"}],
    }
    assert EMPTY.to_document() == {"version": 1, "columns": []}
    zoned = TableSchema({"a": pa.int64()}, "Europe/Prague").to_document()
    columns = [{"name": "a", "type": "bigint"}]
    assert zoned == {"version": 2, "time_zone": "Europe/Prague", "columns": columns}  # no older release reads it
    assert TableSchema.from_document(zoned).time_zone == "Europe/Prague"


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (None, "no JSON object with a version"),
        ({}, "no JSON object with a version"),
        ({"version": 3, "columns": []}, "it has version 3"),
        ({"version": 1}, "it has no list of columns"),
        ({"version": 1, "columns": ["a"]}, "its column 'a' is no object with a name and a type"),
        ({"version": 1, "columns": [{"name": "a"}]}, "is no object with a name and a type"),
        ({"version": 1, "columns": [{"name": "a", "type": "uuid"}]}, "its column 'a' has an unknown type: 'uuid'"),
        ({"version": 1, "columns": [{"name": "a", "type": "int"}] * 2}, "it has the column 'a' twice"),
    ],
)
def test_a_damaged_document_says_what_is_wrong(document: object, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        TableSchema.from_document(document)


@pytest.mark.parametrize(
    ("stored", "canonical"),
    [
        (pa.int8(), "int"),
        (pa.uint16(), "int"),
        (pa.uint32(), "bigint"),
        (pa.float32(), "double"),
        (pa.large_string(), "string"),
        (pa.dictionary(pa.int32(), pa.string()), "string"),
        (pa.binary(16), "binary"),
        (pa.date64(), "date"),
        (pa.decimal128(10, 2), "decimal(10,2)"),
        (pa.timestamp("ms"), "timestamp_ntz"),
        (pa.timestamp("ns", "Europe/Berlin"), "timestamp"),
        (pa.list_(pa.field("element", pa.float32())), "array<double>"),
        (pa.struct([("a", pa.int16()), ("b", pa.null())]), "struct<a:int>"),
        (pa.null(), ""),  # void columns are left out
        (pa.struct([("a", pa.null())]), ""),
    ],
)
def test_the_types_of_a_file_that_exists(stored: pa.DataType, canonical: str) -> None:
    columns = {"x": canonical} if canonical else {}
    assert TableSchema.from_arrow(pa.schema([("x", stored), ("y", pa.bool_())])) == schema(**columns, y="boolean")


def test_a_type_that_cannot_be_written_names_its_column() -> None:
    stored = pa.schema([("x", pa.struct([("m", pa.map_(pa.int64(), pa.int64()))]))])
    with pytest.raises(ValueError, match=r"its column 'x\.m' has the type map<int64, int64>"):
        TableSchema.from_arrow(stored)


def test_fields_of_other_tools_that_differ_only_in_case_are_read_back() -> None:
    kind = pa.struct([("a", pa.int64()), ("A", pa.string())])
    schema = TableSchema.from_arrow(pa.schema([("o", kind), ("x", pa.int64()), ("X", pa.string())]))
    assert schema.columns["o"] == kind
    assert TableSchema.from_document(json.loads(json.dumps(schema.to_document()))) == schema


def test_two_fields_of_one_name_are_refused_at_once() -> None:
    with pytest.raises(ValueError, match="'o' has two fields of the same name"):
        TableSchema.from_arrow(pa.schema([("o", pa.struct([("a", pa.int64()), ("a", pa.string())]))]))
