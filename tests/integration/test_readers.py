"""One table after many changes of its schema, opened with four readers: the same rows, of the same types."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

from app.model import Pairs
from app.spark.writer import SparkWriter
from app.storage.local.store import LocalStore
from app.table.layout import HIVE_NULL
from app.table.schema import TableSchema
from app.table.type_names import type_name
from tests.integration.lake_writer import TABLE, LakeWriter
from tests.support.batches import NOON

pytestmark = pytest.mark.usefixtures("parsed_classes")

MOMENT = datetime(2024, 2, 29, 23, 59, 59, 123456, UTC)
REFUSED_NAMES = f'{{"box":{{"":1,"A":3,"a\\u0000b":7,"{"n" * 256}":4}},"":5,"a\\u0000b":6}}'
LOCAL = datetime(1, 1, 1, 2, 3, 4)
METADATA = ("__topic", "__partition", "__offset", "__timestamp", "__headers")


# What stands in the record → what readers find of its folder.
ODD_FOLDERS: tuple[tuple[Any, str | None], ...] = (
    *((f"a{character}b",) * 2 for character in "/=%:\\#?*\"'{}[]^ &+;,@!$()<>|~`-_."),
    *((f"a{chr(code)}b",) * 2 for code in (1, 9, 10, 13, 27, 31, 127, 128, 0x2028)),
    *((text,) * 2 for text in ("..", ".", " ", " padded ", "_hidden", ".hidden", "%2F", "%", "100%")),
    *((text,) * 2 for text in ("null", "None", "NULL", "nan", "007", "1e5", "true", "2024-01-05", "x=1/y=2")),
    *((text,) * 2 for text in ("s3://bucket/key?x=1#y", "C:\\temp\\*", "münchen", "日本", "😀🚀", "e\u0301")),
    *((text,) * 2 for text in ("v" * 249, "ü" * 124)),
    (True, "True"),
    (1.0, "1.0"),
    (1e300, "1e+300"),
    (-0.0, "-0.0"),
    (2**70, "1180591620717411303424"),
    (-7, "-7"),
    ([1, "a"], "[1, 'a']"),
    (b"\xff", "\\xff"),
    *((nothing, None) for nothing in (None, "", float("nan"), HIVE_NULL)),
)


def lists(levels: int) -> Any:
    return 1 if not levels else [lists(levels - 1)]


# A batch each: records, and what readers find where this is not just that.
Record = dict[str, Any]
CHANGES: dict[str, tuple[tuple[Record, Record], ...]] = {
    "the first columns": (({"text": "a", "late": None, "old": 1}, {}), ({"text": "ü\n😀"}, {})),
    "whole numbers": (({"text": "b", "old": 2, "count": -(2**63)}, {}), ({"text": "c", "count": 2.0}, {"count": 2})),
    "fractions": (({"fraction": 0.1}, {}), ({"fraction": float("inf")}, {}), ({"fraction": 7}, {"fraction": 7.0})),
    "truths": (({"flag": True}, {}), ({"flag": False}, {}), ({"flag": None}, {})),
    "first values in a column that was always null": (({"late": "at last"}, {}),),
    "bytes": (({"raw": b"\x00\xff"}, {}), ({"raw": b""}, {})),
    "dates and times": (({"day": MOMENT.date(), "at": MOMENT, "local": LOCAL}, {}),),
    "decimals": (({"price": Decimal("12.340"), "count": 2**63 - 1}, {}),),
    "an object": (({"car": {"id": 1}}, {}), ({"car": {}}, {"car": None}), ({"car": None}, {})),
    "a field inside the object": (({"car": {"id": 2, "engine": {"kind": "v6"}}}, {}),),
    "a field inside the field": (({"car": {"engine": {"rpm": 900.5}}}, {}),),
    "a list": (({"tags": ["x", None]}, {}), ({"tags": []}, {}), ({"tags": None}, {})),
    "a list of objects": (({"laps": [{"lap": 1}, {"lap": 2}]}, {}),),
    "wider objects in the list": (
        ({"laps": [{"lap": 3, "time": 61.2}, {"sector": {"no": 1}}]}, {}),
        ({"laps": [{}, None]}, {"laps": [None, None]}),
    ),
    "a map": (({"rpms": Pairs(a=900.5, ü=None)}, {}), ({"rpms": {}}, {}), ({"rpms": None}, {})),
    "a map of objects": (
        ({"doors": Pairs(left={"open": True}), "rpms": {"b": 1}}, {"rpms": {"b": 1.0}}),
        ({"doors": {"right": {"rear": Pairs(x=1)}}}, {}),
    ),
    "a pair of a map that does not fit": (
        ({"rpms": {"a": "fast", "b": 2.5}}, {"rpms": {"b": 2.5}, "_rescued_data": '{"rpms":{"a":"fast"}}'}),
    ),
    "values that fit no column": (
        (
            {"count": "many", "flag": 1, "car": {"id": "x", "engine": {"kind": "v8"}}},
            {
                "count": None,
                "flag": None,
                "car": {"engine": {"kind": "v8"}},
                "_rescued_data": '{"count":"many","flag":1,"car":{"id":"x"}}',
            },
        ),
    ),
    "names that readers refuse": (
        (
            {"": 5, "a\0b": 6, "a": 7, "c0": 8, "box": {"": 1, "a": 2, "A": 3, "a\0b": 7, "n" * 256: 4}},
            {"box": {"a": 2}, "_rescued_data": REFUSED_NAMES},
        ),
    ),
    "as many levels of lists as there are": (({"grid": lists(12)}, {}),),
    "more of them": (({"cube": lists(13)}, {"cube": None, "_rescued_data": f'{{"cube":{"[" * 13}1{"]" * 13}}}'}),),
    "columns that are gone": (({"count": 5}, {}),),
    "odd names": (({"a.b": 1, "über maß": "m", "count": 6}, {}),),
    "odd folders": tuple(({"place": value}, {"place": text}) for value, text in ODD_FOLDERS),
}
TYPES = {
    "n": "bigint",
    "text": "string",
    "old": "bigint",
    "count": "bigint",
    "fraction": "double",
    "flag": "boolean",
    "late": "string",
    "raw": "binary",
    "day": "date",
    "at": "timestamp",
    "local": "timestamp_ntz",
    "price": "decimal(38,18)",
    "car": "struct<id:bigint,engine:struct<kind:string,rpm:double>>",
    "tags": "array<string>",
    "laps": "array<struct<lap:bigint,time:double,sector:struct<no:bigint>>>",
    "rpms": "map<string,double>",
    "doors": "map<string,struct<open:boolean,rear:map<string,bigint>>>",
    "_rescued_data": "string",
    "a": "bigint",
    "c0": "bigint",
    "box": "struct<a:bigint>",
    "grid": "array<" * 12 + "bigint" + ">" * 12,
    "a.b": "bigint",
    "über maß": "string",
    "ts_ms": "bigint",
    "__key": "string",
    "__topic": "string",
    "__partition": "int",
    "__offset": "bigint",
    "__timestamp": "timestamp",
    "__headers": "array<struct<key:string,value:binary>>",
    "place": "string",
}
Rows = list[dict[str, Any]]


def _duckdb(table: Path) -> pa.Table:
    source = f"read_parquet('{table}/**/*.parquet', union_by_name = true, hive_partitioning = true)"
    with duckdb.connect() as connection:
        return connection.sql(f"SELECT * FROM {source}").to_arrow_table()  # noqa: S608 - a folder of this test


def _spark(table: Path) -> pa.Table:
    session = SparkSession.builder.getOrCreate().newSession()
    session.conf.set("spark.sql.caseSensitive", "false")  # as everybody has it
    return session.read.option("mergeSchema", "true").parquet(str(table)).toArrow()


def _pyarrow(table: Path) -> pa.Table:
    return ds.dataset(table, schema=_unified_schema(table), partitioning="hive", format="parquet").to_table()


def _polars(table: Path, integer_cast: Any = "forbid") -> pa.Table:
    scan = pl.scan_parquet(
        table / "**" / "*.parquet",
        schema=pl.Schema(_unified_schema(table)),
        hive_partitioning=True,
        missing_columns="insert",
        cast_options=pl.ScanCastOptions(missing_struct_fields="insert", integer_cast=integer_cast),
    )
    return scan.collect().to_arrow()


def _polars_of_two_types(table: Path) -> pa.Table:
    return _polars(table, integer_cast="allow-float")


def _unified_schema(table: Path) -> pa.Schema:
    """What the table says of itself, and its partition column."""
    stored = TableSchema.from_document(json.loads((table / "_journal" / "schema.json").read_bytes()))
    return pa.schema([*stored.columns.items(), ("place", pa.string())])


Reader = Callable[[Path], pa.Table]
READERS = (_duckdb, _spark, _pyarrow, _polars)
READERS_OF_TWO_TYPES = (_duckdb, _pyarrow, _polars_of_two_types)


def types_of(found: pa.Table) -> dict[str, str]:
    """Types by the names that the table's schema has for them, whatever a reader's own form of them is."""
    return {name: type_name(kind) for name, kind in TableSchema.from_arrow(found.schema).columns.items()}


def rows_of(found: pa.Table) -> Rows:
    return sorted(found.to_pylist(maps_as_pydicts="strict"), key=lambda row: row["n"])


def whole(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: whole(value.get(field.name), field.type) for field in kind}
    if pa.types.is_list(kind):
        return [whole(each, kind.value_type) for each in value]
    if pa.types.is_map(kind):
        return {key: whole(each, kind.item_type) for key, each in value.items()}
    return value


def new_lake(folder: Path, writer: SparkWriter) -> LakeWriter:
    store = LocalStore(folder / "lake")
    store.connect("")
    return LakeWriter(store, writer, folder)


@pytest.fixture(scope="module")
def changed(writer: SparkWriter, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Rows]:
    """A table after all the changes, and its rows."""
    folder = tmp_path_factory.mktemp("changed")
    lake = new_lake(folder, writer)
    found: Rows = []
    for batch in CHANGES.values():
        records = []
        for record, otherwise in batch:
            own = {"n": len(found), "place": "ab"[len(found) % 2], **record}
            records.append(own)
            found.append({**own, "ts_ms": NOON, "__key": "k", **otherwise})
        lake.write(*records)
    n = len(found)
    lake.write({"n": n, "place": "c"}, metadata=METADATA)
    origin = {"__topic": "readings", "__partition": 0, "__offset": n, "__headers": [{"key": "h", "value": b"1"}]}
    noon = datetime.fromtimestamp(NOON / 1000, UTC)
    found.append({"n": n, "place": "c", "ts_ms": NOON, "__key": "k", "__timestamp": noon, **origin})
    kinds = {**lake.schema.columns, "place": pa.string()}
    return folder / "lake" / TABLE, [
        {name: whole(row.get(name), kind) for name, kind in kinds.items()} for row in found
    ]


@pytest.mark.parametrize("read", READERS)
def test_rows_and_types_are_the_same_for_every_reader(changed: tuple[Path, Rows], read: Reader) -> None:
    table, rows = changed
    found = read(table)
    assert types_of(found) == TYPES
    assert rows_of(found) == rows


@pytest.fixture(scope="module")
def of_two_types(writer: SparkWriter, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Rows]:
    """A table with columns that were whole numbers first and got fractions later, and its rows."""
    folder = tmp_path_factory.mktemp("mixed")
    lake = new_lake(folder, writer)
    whole_numbers = {"n": 0, "place": "a", "v": 5, "s": {"a": -1, "b": "x"}, "l": [3, None], "m": Pairs(k=1, n=None)}
    fractions = {"n": 1, "place": "a", "v": 1.5, "s": {"a": 2.5, "b": None}, "l": [0.5], "m": {"k": 0.5}}
    lake.write(whole_numbers)
    lake.write(fractions)
    return folder / "lake" / TABLE, [{**row, "ts_ms": NOON, "__key": "k"} for row in (whole_numbers, fractions)]


@pytest.mark.parametrize("read", READERS_OF_TWO_TYPES)
def test_whole_numbers_before_fractions_are_read_by_three(of_two_types: tuple[Path, Rows], read: Reader) -> None:
    table, rows = of_two_types
    found = read(table)
    assert types_of(found)["v"] == "double"
    assert rows_of(found) == rows
