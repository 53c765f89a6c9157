"""Objects as maps: the same many at once and one by one, without a column for each key, and within the limits."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.consumer.rows import own_copy, text_of
from app.model import Pairs
from app.parts.avro.avro_messages import AvroMessages
from app.table.type_names import parse_column_types, type_name
from tests.support.avro import MemoryRegistry, datum, encoded, record
from tests.support.avro import framed as of_avro
from tests.support.both_ways import StagingStep, Table, assert_both_agree, messages
from tests.support.protobuf import class_of, field, file, mapped, message, opened, registered
from tests.support.protobuf import framed as of_protobuf
from tests.unit.convert.conversions import both_ways, converted, rescued, staged

AVRO = record(("ts_ms", "long"), ("x", {"type": "map", "values": "long"}))
_x, _entry = mapped("x", ".lab.Reading", "string", field("value", "int64"))
PROTOBUF = file(message("Reading", field("ts_ms", "int64"), _x, nested=[_entry]), package="lab")


def in_avro(value: dict[str, int]) -> bytes:
    return of_avro(1, datum(AVRO, {"ts_ms": 1, "x": value}))


def in_protobuf(value: dict[str, int]) -> bytes:
    return of_protobuf(1, class_of("lab.Reading", PROTOBUF)(ts_ms=1, x=value).SerializeToString())


def in_json(value: dict[str, int]) -> bytes:
    return json.dumps({"ts_ms": 1, "x": value}).encode()


FORMATS = [
    pytest.param(Table(types="x:map<string,bigint>"), in_json, id="json"),
    pytest.param(Table(avro=AvroMessages(MemoryRegistry({1: AVRO}).find)), in_avro, id="avro"),
    pytest.param(Table(protobuf=opened(registered(PROTOBUF))), in_protobuf, id="protobuf"),
]


@pytest.mark.parametrize(("table", "encode"), FORMATS)
def test_maps_are_read_many_at_once(table: Table, encode: Any, tmp_path: Path) -> None:
    step = StagingStep(table, at_once=True, few=1)
    step.stage(messages(encode({}), encode({"a": 1})), tmp_path / "staged")
    first = step.reader.reads
    values: list[dict[str, int]] = [{}, {"a": 1, "b": 2}, {f"n{number}": number for number in range(5_000)}] * 3
    step.stage(messages(*map(encode, values)), tmp_path / "staged")
    assert step.reader.reads == first
    assert pq.read_table(tmp_path / "staged")["x"].to_pylist(maps_as_pydicts="strict") == values
    assert type_name(step.schema.current.columns["x"]) == "map<string,bigint>"


@pytest.mark.parametrize(("table", "encode"), FORMATS[1:])
@pytest.mark.parametrize("kind", ["string", "struct<a:bigint>", "map<string,double>", "bigint"])
def test_a_column_that_exists_keeps_its_type(table: Table, encode: Any, kind: str) -> None:
    batch = messages(*map(encode, ({"a": 1}, {"b": 2**53 + 1}, {}) * 2))
    assert_both_agree(
        table, [batch, batch], {"ts_ms": pa.int64(), "__key": pa.string(), **parse_column_types(f"x:{kind}")}
    )


@pytest.mark.parametrize("at_once", [True, False])
def test_the_last_of_equal_keys_wins(at_once: bool, tmp_path: Path) -> None:
    pairs = b"\4\2a\2\2a\4\0"  # a is 1, a is 2
    step = StagingStep(Table(avro=AvroMessages(MemoryRegistry({1: AVRO}).find)), at_once=at_once, few=1)
    step.stage(messages(*[of_avro(1, encoded(1) + pairs)] * 3), tmp_path / "staged")
    assert pq.read_table(tmp_path / "staged")["x"].to_pylist() == [[("a", 2)]] * 3


ONE = '{"ts_ms":1,"x":{"a":{"n":1}}}'


@both_ways
@pytest.mark.parametrize(
    ("text", "stored", "left_over"),
    [
        ('{"x":{"b":{"n":"warm"},"a":{"n":1.0},"c":7}}', [("a", {"n": 1})], {"b": {"n": "warm"}, "c": 7}),
        ('{"x":{"a":null,"b":{},"c":{"n":null}}}', [("a", None), ("b", None), ("c", None)], None),
        ('{"x":{"a":7}}', None, {"a": 7}),
        ('{"x":{"":{"n":2},".":{"n":3},"' + "n" * 300 + '":{"n":4}}}', 3, None),
        ('{"x":[["a",{"n":1}]]}', None, [["a", {"n": 1}]]),
        ('{"x":{}}', [], None),
        ('{"x":[]}', None, []),
        ('{"x":"{}"}', None, "{}"),
    ],
)
def test_pairs_that_do_not_fit_are_rescued(
    text: str, stored: Any, left_over: Any, at_once: bool, tmp_path: Path
) -> None:
    table = Table(types="x:map<string,struct<n:bigint>>")
    rows, _, schema = staged(tmp_path, table, ONE, text, ONE, at_once=at_once)
    found = rows[1]["x"]
    assert (len(found) if isinstance(stored, int) else found) == stored
    assert rows[1]["rescued"] == ({} if left_over is None else {"x": left_over})
    assert type_name(schema.columns["x"]) == "map<string,struct<n:bigint>>"


def test_a_map_of_values_without_a_schema_grows_like_any_column() -> None:
    conversion = converted(
        {"x": Pairs(a={"n": 1})}, {"x": {"b": {"n": 0.5, "m": [1]}}}, {"x": {}}, {"x": Pairs(a=None)}
    )
    assert type_name(conversion.schema.columns["x"]) == "map<string,struct<n:double,m:array<bigint>>>"
    conversion = converted({"x": Pairs()}, {"x": Pairs(a=None)}, {"x": Pairs(a=[])})
    assert "x" not in conversion.schema.columns
    assert rescued(conversion) == [None] * 3
    for keys in ({7: 1}, {None: 1}, {"\ud800": 1}, {b"a": 1}):  # transform() may return them
        conversion = converted({"x": keys}, schema={"x": pa.map_(pa.string(), pa.int64())})
        assert rescued(conversion) != [None]


def test_a_map_that_transform_passes_on_stays_a_map() -> None:
    row: dict[str, Any] = {"x": Pairs(a=[1]), "y": {"z": Pairs()}}
    copy = own_copy(row)
    assert (copy, type(copy["x"]), type(copy["y"]["z"])) == (row, Pairs, Pairs)
    assert text_of(row, 0) is None, "JSON has objects without a type for maps"


def test_a_short_record_does_not_fill_the_memory_with_empty_cells() -> None:
    wide = parse_column_types("x:map<string,struct<" + ",".join(f"f{number}:bigint" for number in range(500)) + ">>")
    values = [{"x": {str(number): {"f0": 1} for number in range(pairs)}} for pairs in (9, 70_000, 9)]
    conversion = converted(*values, schema=wide)
    assert [row and len(row) for row in conversion.table["x"].to_pylist()] == [9, None, 9]
    assert "nearly all empty" in conversion.rescued["x"].example


@pytest.mark.parametrize("where", ["x.a", "~x", "x.b.c"])
def test_a_map_and_a_pair_of_it_name_folders(where: str) -> None:
    texts = (b'{"x":{"a":1}}', b'{"x":{"a":"1","b":2}}', b'{"x":{}}', b'{"a":1}', b'{"x":{"b":{"c":1}}}')
    for types in ("x:map<string,string>", "x:map<string,map<string,bigint>>"):
        assert_both_agree(Table(types=types, hive=(where,)), [messages(*texts)] * 2, few=1)
