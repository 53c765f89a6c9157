"""Whether messages in Avro are converted many at once or one by one: the outcome is the same to the byte."""

import json
from datetime import UTC, datetime, time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.model import RegisteredSchema
from app.parts.avro.avro_columns import NotReadError
from app.parts.avro.avro_messages import AvroMessages, AvroSchema
from app.table.field_rules import FieldRules
from app.table.layout import HIVE_NULL
from tests.fakes.kafka_message import KafkaMessage
from tests.support.avro import Generator, MemoryRegistry, datum, framed, record
from tests.support.both_ways import StagingStep, Table, assert_both_agree, messages
from tests.unit.convert.conversions import logical

READING = record(("ts_ms", "long"), ("x", ["null", "double"]))


def seeds(count: int, *, by_day: int) -> list[Any]:
    """The first few for every change, and all by night."""
    return [*range(by_day), *(pytest.param(seed, marks=pytest.mark.night) for seed in range(by_day, count))]


def table_of(*schemas: Any, **settings: Any) -> Table:
    """A table whose registry has these schemas under the ids 1, 2, and so on."""
    return Table(avro=AvroMessages(MemoryRegistry(dict(enumerate(schemas, 1))).find), **settings)


@pytest.mark.parametrize("seed", seeds(40, by_day=10))
@pytest.mark.parametrize("hive", [(), ("f0",), ("f1", "~f0"), ("f1.f0", "f2.f1.f0")], ids=",".join)
def test_drawn_schemas(seed: int, hive: tuple[str, ...]) -> None:
    draw = Generator(seed, beyond=True)
    schemas = [draw.record(), draw.record()]
    batches = [
        messages(*(framed(each + 1, draw.datum(schemas[each])) for each in draw.random.choices((0, 1), k=12)))
        for _ in range(3)
    ]
    assert_both_agree(table_of(*schemas, hive=hive, timestamp="f0"), batches, few=2)


@pytest.mark.parametrize(
    "rules", [FieldRules(["x"]), FieldRules(renamed={"x": "y"}), FieldRules(hashed=["x"], salt="s")]
)
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (logical("int", "time-millis"), 45_000_001),
        (["null", logical("long", "time-micros")], 45_000_000_000),
        (logical("int", "date"), 19_000),
        (logical("long", "timestamp-millis"), 1_700_000_000_000),
        ("boolean", True),
        ("bytes", b"ab"),
        ("double", 1.5),
        ("long", 7),
        ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, "B"),
        ({"type": "array", "items": "string"}, ["a"]),
    ],
)
def test_fields_that_are_dropped_renamed_or_hashed(kind: Any, value: Any, rules: FieldRules) -> None:
    written = record(("ts_ms", "long"), ("x", kind))
    values = [framed(1, datum(written, {"ts_ms": 1, "x": value}))] * 6
    assert_both_agree(table_of(written, rules=rules), [messages(*values)] * 2, few=2)


@pytest.mark.parametrize("seed", seeds(150, by_day=30))
def test_datums_that_do_not_fit_their_schema_are_never_read_at_once_in_another_way(seed: int) -> None:
    draw = Generator(seed, beyond=True)
    drawn = draw.record()
    # Of an option, Polars takes an unknown branch for the second.
    while '["null"' in (text := json.dumps(drawn)) or '"null"]' in text:
        drawn = draw.record()
    schema = AvroSchema(RegisteredSchema("AVRO", json.dumps(drawn)))
    for _ in range(10):
        datums = [draw.datum(drawn) for _ in range(5)]
        datums[draw.random.randrange(5)] = draw.spoiled(datums[0])
        try:
            columns = schema.columns.read(datums) if schema.columns else {}
        except NotReadError:
            continue
        for name, column in columns.items():
            assert _plain(column.to_pylist(maps_as_pydicts="strict")) == _plain(
                [schema.read(each)[name] for each in datums]
            )


def _plain(value: Any) -> str:
    """The same text for the same values: a column has times of day as text, and another name for UTC."""
    return repr(_simple(value))


def _simple(value: Any) -> Any:
    if isinstance(value, list):
        return [_simple(each) for each in value]
    if isinstance(value, dict):
        return {name: _simple(each) for name, each in value.items()}
    return value.isoformat() if isinstance(value, time | datetime) else value


# --- evolution ------------------------------------------------------------------------------------------------------

X = ["null", "double"]


def evolved(**x: Any) -> dict[str, Any]:
    """The schema of a reading with another field for ``x``."""
    return {"type": "record", "name": "Reading", "fields": [{"name": "ts_ms", "type": "long"}, x]}


LATER: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a field is added": (record(("ts_ms", "long"), ("x", X), ("y", "string")), {"ts_ms": 2, "x": 1.5, "y": "new"}),
    "a field is removed": (record(("ts_ms", "long")), {"ts_ms": 2}),
    "a field has a default": (evolved(name="x", type="double", default=7.0), {"ts_ms": 2, "x": 2.5}),
    "a field is renamed": (evolved(name="z", aliases=["x"], type=X), {"ts_ms": 2, "z": 2.5}),
    "a field is promoted": (record(("ts_ms", "double"), ("x", X)), {"ts_ms": 2.5, "x": 1.5}),
    "a field is nested": (evolved(name="x", type=record(("z", "int"), name="Inner")), {"ts_ms": 2, "x": {"z": 1}}),
}


@pytest.mark.parametrize("name", LATER)
@pytest.mark.parametrize("few", [1, 256])
def test_schemas_take_turns_while_producers_are_replaced(name: str, few: int) -> None:
    schema, value = LATER[name]
    old, new = framed(1, datum(READING, {"ts_ms": 1, "x": 0.5})), framed(2, datum(schema, value))
    assert_both_agree(table_of(READING, schema), [messages(*[old, new] * 3), messages(*[new] * 4, old)], few=few)


def test_a_field_inside_records_names_folders_many_at_once(tmp_path: Path) -> None:
    inside = record(("region", ["null", "string"]), ("n", "int"), name="Meta")
    written = record(("ts_ms", "long"), ("meta", ["null", inside]))
    step = StagingStep(table_of(written, hive=("meta.region", "meta.n")), at_once=True, few=1)
    metas = [{"region": "eu", "n": 7}, {"region": None, "n": 7}, None] * 4
    values = [framed(1, datum(written, {"ts_ms": 1, "meta": meta})) for meta in metas]
    step.stage(messages(*values), tmp_path / "staged")
    before = step.reader.reads
    file = step.stage(messages(*values), tmp_path / "staged").file
    assert step.reader.reads == before
    assert file
    folders = [("eu", "7"), (HIVE_NULL, "7"), (HIVE_NULL, HIVE_NULL)]
    assert [tuple(group.partition_values.values()) for group in file.groups] == folders


def test_messages_of_several_schemas_are_read_at_once(tmp_path: Path) -> None:
    new = record(("ts_ms", "long"), ("y", "string"))
    step = StagingStep(table_of(READING, new), at_once=True, few=1)
    step.schema.current = type(step.schema.current)({"ts_ms": pa.int64(), "x": pa.float64(), "y": pa.string()})
    values = [(2, datum(new, {"ts_ms": at, "y": str(at)})) for at in range(10)]
    values[::3] = [(1, datum(READING, {"ts_ms": 0, "x": 0.5}))] * 4
    batch = [framed(*value) for value in values]
    staged = step.stage(messages(*batch), tmp_path / "staged")
    assert step.reader.reads == 0
    assert staged.file
    assert pq.read_table(staged.file.path)["y"].to_pylist() == [str(at) if at % 3 else None for at in range(10)]


# --- the rules of the table -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("types", ["x:string", "x:double", "x:timestamp", "x:decimal(10,2)", "x:struct<a:string>"])
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("long", 5),
        (logical("long", "timestamp-millis"), 1_700_000_000_000),
        (logical("bytes", "decimal", precision=6, scale=2), b"\x30\x39"),
        (["null", "string"], "2024-01-15T12:00:00Z"),
        (record(("a", ["null", "long"]), name="Inner"), {"a": None}),
        (record(("a", ["null", "long"]), name="Inner"), {"a": 1}),
        ({"type": "array", "items": "bytes"}, [b"a"]),
    ],
)
def test_column_types_rule(types: str, kind: Any, value: Any) -> None:
    schema = record(("ts_ms", "long"), ("x", kind))
    raw = json.loads(json.dumps(kind).replace('"logicalType"', '"ignored"'))
    written = datum(record(("ts_ms", "long"), ("x", raw)), {"ts_ms": 1, "x": value})
    assert_both_agree(table_of(schema, types=types), [messages(*[framed(1, written)] * 6)] * 2, few=2)


@pytest.mark.parametrize(
    "kind",
    [
        logical("long", "timestamp-millis"),
        logical("long", "local-timestamp-micros"),
        logical("int", "date"),
        ["null", logical("long", "timestamp-millis")],
        logical("long", "timestamp-nanos"),
        "double",
        logical("bytes", "decimal", precision=6, scale=2),
    ],
)
def test_time_partitions(kind: Any) -> None:
    draw, schema = Generator(7), record(("ts_ms", kind))
    batch = messages(*(framed(1, draw.datum(schema)) for _ in range(12)))
    assert_both_agree(table_of(schema, hive=("year", "hour")), [batch, batch], few=2)


def test_records_without_the_timestamp_get_that_of_kafka() -> None:
    other = record(("x", "long"))
    batch = messages(*[framed(1, datum(other, {"x": 1}))] * 5)
    mixed = messages(*[framed(1, datum(other, {"x": 1})), framed(2, datum(READING, {"ts_ms": 5, "x": None}))] * 3)
    assert_both_agree(table_of(other, READING, hive=("year",)), [batch, batch, mixed, batch], few=1)


def test_fields_of_our_names() -> None:
    schema = record(("ts_ms", "long"), ("__key", "string"), ("__offset", "long"), ("year", "int"), ("A", "int"))
    written = framed(1, datum(schema, {"ts_ms": 1, "__key": "k", "__offset": 7, "year": 1, "A": 1}))
    table = table_of(schema, hive=("year",), metadata=("__offset",))
    assert_both_agree(table, [messages(*[written] * 5, raw_key=b"k")] * 2, few=1)


def test_a_column_with_the_moment() -> None:
    moment = record(("ts_ms", logical("long", "timestamp-millis")), ("time", "string"))
    written = framed(1, datum(moment, {"ts_ms": 1_700_000_000_123, "time": "shadowed"}))
    table = table_of(moment, hive=("year",), timestamp_as="time")
    assert_both_agree(table, [messages(*[written] * 5)] * 2, few=1)


def test_a_column_with_the_moment_of_records_in_json(tmp_path: Path) -> None:
    table = Table(timestamp_as="time")
    at_noon = [b'{"ts_ms": 1705320000123}'] * 6
    mixed = [b'{"ts_ms": %s}' % each for each in (b"1705320000", b'"2024-01-15T12:00:00"', b'"noon"', b"null")] + [
        b"{}"
    ]
    assert_both_agree(table, [messages(*at_noon), messages(*at_noon, *mixed), messages(*mixed)], few=1)
    staged = StagingStep(table, at_once=True, few=1).stage(messages(*mixed), tmp_path / "staged")
    assert staged.file
    moments = pq.read_table(staged.file.path)["time"]
    assert moments.type == pa.timestamp("us", "UTC")
    noon = datetime(2024, 1, 15, 12, tzinfo=UTC)
    assert moments.to_pylist() == [noon, noon, None, None, noon]


_SIXTEEN = {"type": "fixed", "name": "Sixteen", "size": 16}


@pytest.mark.parametrize("raw", [{"type": "bytes"}, _SIXTEEN], ids=["bytes", "fixed"])
@pytest.mark.parametrize("number", [10**38, -(10**38), 2**127 - 1, 10**38 - 1])
def test_decimals_of_more_digits_than_a_column_has_are_rescued(raw: dict[str, Any], number: int) -> None:
    schema = record(("ts_ms", "long"), ("x", raw | {"logicalType": "decimal", "precision": 38, "scale": 18}))
    plain = record(("ts_ms", "long"), ("x", raw))
    one, beyond = (
        framed(1, datum(plain, {"ts_ms": 1, "x": unscaled.to_bytes(16, "big", signed=True)}))
        for unscaled in (1, number)
    )
    assert_both_agree(table_of(schema), [messages(*[one] * 6), messages(one, beyond, one, beyond)], few=1)


_MILLIS = logical("long", "timestamp-millis")


@pytest.mark.parametrize("hive", [(), ("__key",)])
@pytest.mark.parametrize(
    "keys",
    [
        [(_MILLIS, 1_700_000_000_000), (_MILLIS, 2**62)],
        [(_MILLIS, 1_700_000_000_000), ("long", 1_700_000_000_000)],
        [(logical("int", "date"), 19_000), (_MILLIS, 1_700_000_000_000)],
        [(["boolean", "double"], 2.5), (["boolean", "double"], True)],
        [(["long", "double"], 2**53), (["long", "double"], 2.5)],
        [(["bytes", "string"], b"a"), (["bytes", "string"], "b")],
    ],
    ids=str,
)
def test_keys_of_several_kinds(keys: list[tuple[Any, Any]], hive: tuple[str, ...]) -> None:
    value = record(("ts_ms", "long"))
    table = table_of(value, *(schema for schema, _ in keys), hive=hive, avro_keys=True)
    written = [
        framed(number, datum(schema if isinstance(schema, list) else "long", key))
        for number, (schema, key) in enumerate(keys, start=2)
    ]
    read = [
        KafkaMessage(framed(1, datum(value, {"ts_ms": 1})), at=at, raw_key=key) for at, key in enumerate(written * 3)
    ]
    assert_both_agree(table, [read[:1] * 4, read], few=1)


def test_an_optional_fixed_takes_no_more_memory_than_the_bound() -> None:
    large = {"type": "fixed", "name": "Large", "size": 2**20}
    columns = AvroSchema(RegisteredSchema("AVRO", json.dumps(record(("large", ["null", large]))))).columns
    assert columns is not None
    with pytest.raises(NotReadError):  # of 1,000 bytes in all; the column would take a gigabyte
        columns.read([b"\0"] * 1_000)
