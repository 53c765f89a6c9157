"""Messages in Avro, one by one: what each type becomes, and what cannot be read."""

import json
import uuid
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.model import RegisteredSchema
from app.parts.avro.avro_messages import AvroMessages, AvroSchema
from app.reason_texts import reason_of
from tests.support.avro import MemoryRegistry, encoded, framed, record
from tests.support.both_ways import StagingStep, Table, messages
from tests.unit.convert.conversions import logical

NODE = record(("value", "long"), ("next", ["null", "Node"]), name="Node")

TYPES: dict[str, tuple[Any, bytes, Any, str]] = {
    "boolean": ("boolean", b"\1", True, "bool"),
    "int": ("int", encoded(-5), -5, "int64"),
    "long": ("long", encoded(2**62), 2**62, "int64"),
    "float": ("float", b"\0\0\xc0\x3f", 1.5, "double"),
    "double": ("double", b"\0\0\0\0\0\0\xf8\x3f", 1.5, "double"),
    "string": ("string", b"\2a", "a", "string"),
    "bytes": ("bytes", b"\2\xff", b"\xff", "binary"),
    "fixed": ({"type": "fixed", "name": "F", "size": 2}, b"ab", b"ab", "binary"),
    "enum": ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, b"\2", "B", "string"),
    "null or an enum": (["null", {"type": "enum", "name": "E", "symbols": ["A", "B"]}], b"\2\2", "B", "string"),
    "date": (logical("int", "date"), encoded(1), date(1970, 1, 2), "date32[day]"),
    "time-millis": (logical("int", "time-millis"), encoded(1500), time(0, 0, 1, 500_000), "string"),
    "time-micros": (logical("long", "time-micros"), encoded(10**6), time(0, 0, 1), "string"),
    "timestamp-millis": (
        logical("long", "timestamp-millis"),
        encoded(1_500),
        datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC),
        "timestamp[us, tz=UTC]",
    ),
    "timestamp-micros": (
        logical("long", "timestamp-micros"),
        encoded(-1),
        datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
        "timestamp[us, tz=UTC]",
    ),
    "local-timestamp-millis": (
        logical("long", "local-timestamp-millis"),
        encoded(0),
        datetime(1970, 1, 1),
        "timestamp[us]",
    ),
    "local-timestamp-micros": (
        logical("long", "local-timestamp-micros"),
        encoded(1),
        datetime(1970, 1, 1, 0, 0, 0, 1),
        "timestamp[us]",
    ),
    "decimal": (
        logical("bytes", "decimal", precision=9, scale=2),
        b"\4\xff\x6a",
        Decimal("-1.50"),
        "decimal128(38, 18)",
    ),
    "decimal that is fixed": (
        logical("fixed", "decimal", name="D", size=2, precision=4, scale=2),
        b"\x00\x96",
        Decimal("1.50"),
        "decimal128(38, 18)",
    ),
    "uuid": (logical("string", "uuid"), b"\x48" + str(uuid.UUID(int=5)).encode(), None, "string"),
    "uuid that is fixed": (
        logical("fixed", "uuid", name="U", size=16),
        uuid.UUID(int=5).bytes,
        str(uuid.UUID(int=5)),
        "string",
    ),
    "local-timestamp-nanos": (logical("long", "local-timestamp-nanos"), encoded(-1), -1, "int64"),
    "duration": (logical("fixed", "duration", name="L", size=12), bytes(range(12)), bytes(range(12)), "binary"),
    "array": ({"type": "array", "items": "long"}, b"\4\2\4\0", [1, 2], "list<"),
    "map": ({"type": "map", "values": "long"}, b"\2\2a\2\0", {"a": 1}, "map<string, int64"),
    "record": (record(("a", "int"), name="R"), b"\2", {"a": 1}, "struct<a: int64>"),
    "null or another": (["null", "long"], b"\2\2", 1, "int64"),
    "a wider union": (["null", "long", "string"], b"\4\2a", "a", "string"),
    "a recursive record": (NODE, b"\2\2\4\0", {"value": 1, "next": {"value": 2, "next": None}}, "struct"),
}


READ_ONE_BY_ONE = {"a wider union", "a recursive record"}


@pytest.mark.parametrize("name", TYPES)
def test_each_type_becomes_a_column(name: str, tmp_path: Path) -> None:
    kind, data, value, column = TYPES[name]
    schema = record(("ts_ms", "long"), ("x", kind))
    value = str(uuid.UUID(int=5)) if value is None else value
    parsed = AvroSchema(RegisteredSchema("AVRO", json.dumps(schema)))
    assert repr(parsed.read(b"\2" + data)) == repr({"ts_ms": 1, "x": value})
    assert (parsed.columns is None) == (name in READ_ONE_BY_ONE)
    for at_once in (True, False):
        step = StagingStep(Table(avro=AvroMessages(MemoryRegistry({1: schema}).find)), at_once=at_once, few=1)
        staged = step.stage(messages(*[framed(1, b"\2" + data)] * 4), tmp_path / "staged")
        assert staged.file
        stored = pq.read_table(staged.file.path)["x"]
        assert str(stored.type).startswith(column)
        text = value.isoformat() if isinstance(value, time) else value
        if column == "timestamp[us, tz=UTC]":
            assert [each.astimezone(UTC) for each in stored.to_pylist()] == [text] * 4
        elif column != "struct":
            assert stored.to_pylist(maps_as_pydicts="strict") == [text] * 4


def wide(levels: int) -> Any:
    """Names that stand for more and more fields."""
    nested: Any = record(("x", "long"), name="R0")
    for level in range(1, levels):
        nested = record(("a", nested), ("b", f"R{level - 1}"), name=f"R{level}")
    return nested


@pytest.mark.parametrize(
    ("kind", "is_read"),
    [
        (logical("fixed", "decimal", name="D", size=20, precision=40, scale=2), False),
        (logical("bytes", "decimal", precision=60, scale=50), False),
        (wide(3), True),
        (wide(30), False),
    ],
    ids=str,
)
def test_what_no_column_can_hold_is_not_read_at_once(kind: Any, is_read: bool) -> None:
    assert (AvroSchema(RegisteredSchema("AVRO", json.dumps(record(("x", kind))))).columns is not None) == is_read


# --- numbers that a type cannot show --------------------------------------------------------------------------------


def test_no_number_is_cut_off() -> None:
    schema = AvroSchema(RegisteredSchema("AVRO", json.dumps(record(("x", "int")))))
    assert schema.columns
    assert schema.columns.read([encoded(2**40)])["x"].to_pylist() == [schema.read(encoded(2**40))["x"]] == [2**40]


def test_no_digit_of_a_decimal_is_lost() -> None:
    schema = logical("bytes", "decimal", precision=4, scale=2)
    read = AvroSchema(RegisteredSchema("AVRO", json.dumps(record(("x", schema))))).read(b"\x10" + b"\x7f" * 8)
    assert read == {"x": Decimal("91872019504357374.71")}


# --- datums and schemas that cannot be read -------------------------------------------------------------------------


LONG = encoded(10**6)
EMPTY = record(name="Empty")
# A type, a datum of it, and one that it did not write.
FOREIGN: dict[str, tuple[Any, bytes, bytes]] = {
    "nothing": ("string", b"\2a", b""),
    "a text that is cut off": ("string", b"\2a", b"\4a"),
    "another format": ("string", b"\2a", b'{"a":1}'),
    "bytes behind it": ("string", b"\2a", b"\2a\0"),
    "a text that is no UTF-8": ("string", b"\2a", b"\2\xff"),
    "a negative size": ("bytes", b"\2a", b"\1a"),
    "a size of exabytes": ("bytes", b"\2a", encoded(2**62) + b"a"),
    "a number of eleven bytes": ("long", b"\2", b"\x80" * 10 + b"\0"),
    "a boolean that is neither": ("boolean", b"\1", b"\2"),
    "no such symbol": ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, b"\2", b"\4"),
    "a symbol from the end": ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, b"\2", b"\1"),
    "no such branch": (["null", "long", "string"], b"\2\2", b"\6\2"),
    "a branch from the end": (["null", "long", "string"], b"\2\2", b"\3\2"),
    "more elements than bytes": ({"type": "array", "items": "long"}, b"\2\2\0", encoded(2**62) + b"\2" * 9 + b"\0"),
    "a negative number of elements": ({"type": "array", "items": "long"}, b"\2\2\0", encoded(-(2**63)) + b"\2\2\0"),
    "empty records": ({"type": "array", "items": EMPTY}, b"\2\0", encoded(2**40) + b"\0"),
    "a gigabyte of empty fields": (
        {"type": "array", "items": record(("b", "boolean"), *((f"n{at}", "null") for at in range(200)), name="Wide")},
        b"\2\0\0",
        LONG + bytes(10**6) + b"\0",
    ),
    "endless levels": (NODE, b"\2\0", b"\2\2" * 100_000 + b"\2\0"),
    "a decimal of a megabyte": (logical("bytes", "decimal", precision=9, scale=2), b"\2\1", LONG + b"\x7f" * 10**6),
}


@pytest.mark.parametrize("at_once", [True, False], ids=["many at once", "one by one"])
@pytest.mark.parametrize("name", FOREIGN)
def test_a_datum_that_is_not_of_its_schema_spoils_no_other(name: str, at_once: bool, tmp_path: Path) -> None:
    kind, good, bad = (FOREIGN[name][0], *(framed(1, b"\2" + each) for each in FOREIGN[name][1:]))
    avro = AvroMessages(MemoryRegistry({1: record(("ts_ms", "long"), ("x", kind))}).find)
    step = StagingStep(Table(avro=avro), at_once=at_once, few=2)
    staged = step.stage(messages(*[good] * 9, bad, *[good] * 9), tmp_path / "staged")
    assert staged.file
    rows = pq.read_table(staged.file.path)
    assert rows.num_rows == 18
    assert len({repr(row) for row in rows.to_pylist()}) == 1
    (rejected,) = staged.rejected
    assert rejected.offset == 9
    assert rejected.value == bad, "byte by byte"
    assert "does not fit its Avro schema" in rejected.reason


@pytest.mark.parametrize("levels", [20, 100, 200])
def test_levels_that_a_column_cannot_hold_end_nothing(levels: int, tmp_path: Path) -> None:
    avro = AvroMessages(MemoryRegistry({1: record(("ts_ms", "long"), ("x", NODE))}).find)
    deep = b"\2" + b"\2\2" * levels + b"\2\0"
    staged = StagingStep(Table(avro=avro), at_once=True).stage(messages(framed(1, deep)), tmp_path / "staged")
    assert staged.file
    assert pq.read_table(staged.file.path)["ts_ms"].to_pylist() == [1]


DAY = logical("int", "date")
BEYOND: dict[str, tuple[Any, bytes, bytes, Any]] = {
    "date": (DAY, b"\2", encoded(2**31 - 1), 2**31 - 1),
    "time-millis": (logical("int", "time-millis"), b"\2", encoded(86_400_000), 86_400_000),
    "time-micros": (logical("long", "time-micros"), b"\2", encoded(-1), -1),
    **{
        f"{local}timestamp-{unit}": (logical("long", f"{local}timestamp-{unit}"), b"\2", encoded(number), number)
        for local in ("", "local-")
        for unit, number in (("millis", 253_402_300_800_000), ("micros", -62_135_596_800_000_001))
    },
    "decimal": (
        logical("bytes", "decimal", precision=30, scale=0),
        b"\2\1",
        encoded(11) + (10**24).to_bytes(11),
        str(10**24),
    ),
    "null or a date": (["null", DAY], b"\2\2", b"\2" + encoded(2**31 - 1), 2**31 - 1),
    "a wider union": (["null", DAY, "string"], b"\2\2", b"\2" + encoded(2**31 - 1), 2**31 - 1),
    "array": (
        {"type": "array", "items": DAY},
        b"\2\2\0",
        b"\4\2" + encoded(2**31 - 1) + b"\0",
        ["1970-01-02", 2**31 - 1],
    ),
    "map": ({"type": "map", "values": DAY}, b"\2\2a\2\0", b"\2\2a" + encoded(2**31 - 1) + b"\0", {"a": 2**31 - 1}),
    "record": (record(("a", DAY), name="R"), b"\2", encoded(2**31 - 1), {"a": 2**31 - 1}),
}


@pytest.mark.parametrize("at_once", [True, False], ids=["many at once", "one by one"])
@pytest.mark.parametrize("place", [0, 9])
@pytest.mark.parametrize("name", BEYOND)
def test_a_value_that_its_type_cannot_hold_is_rescued_and_makes_no_column(
    name: str, place: int, at_once: bool, tmp_path: Path
) -> None:
    kind, good, beyond, rescued = BEYOND[name]
    avro = AvroMessages(MemoryRegistry({1: record(("ts_ms", "long"), ("x", kind))}).find)
    usual = StagingStep(Table(avro=avro), at_once=at_once, few=2)
    step = StagingStep(Table(avro=avro), at_once=at_once, few=2)
    batch = [framed(1, b"\2" + good)] * 9
    usual.stage(messages(*batch), tmp_path / "usual")
    batch.insert(place, framed(1, b"\2" + beyond))
    staged = step.stage(messages(*batch), tmp_path / "staged")
    assert staged.file
    rows = pq.read_table(staged.file.path).to_pylist()
    odd = rows.pop(place)
    assert {each["_rescued_data"] for each in rows} == {None}
    assert None not in [each["x"] for each in rows]
    assert json.loads(odd["_rescued_data"]) == {"x": rescued}
    assert odd["x"] is None
    assert step.schema.current.columns["x"] == usual.schema.current.columns["x"]


@pytest.mark.parametrize("at_once", [True, False], ids=["many at once", "one by one"])
def test_a_moment_after_the_year_9999_is_in_no_folder(at_once: bool, tmp_path: Path) -> None:
    avro = AvroMessages(MemoryRegistry({1: record(("ts_ms", logical("long", "timestamp-millis")))}).find)
    step = StagingStep(Table(("year",), avro=avro), at_once=at_once, few=2)
    batch = messages(*(framed(1, encoded(each)) for each in (0, 253_402_300_800_000, 0)))
    (rejected,) = step.stage(batch, tmp_path / "staged").rejected
    assert rejected.offset == 1
    assert "outside the years 1 to 9999" in rejected.reason


@pytest.mark.parametrize("text", ["", "7", '{"type":"record"}', '{"type":"unknown"}', "[" * 100_000])
def test_no_schema(text: str) -> None:
    with pytest.raises(ValueError, match="not an Avro schema"):
        AvroSchema(RegisteredSchema("AVRO", text))


def why_not(registry: MemoryRegistry, raw: bytes) -> str:
    return why_not_read(AvroMessages(registry.find), raw)


def why_not_read(avro: AvroMessages, raw: bytes) -> str:
    with pytest.raises(ValueError, match="schema") as caught:
        avro.read(raw, None)
    return reason_of(caught.value).whole


def test_what_is_wrong_with_a_message_is_named() -> None:
    registry = MemoryRegistry({1: "long"})
    registry.schemas[2] = RegisteredSchema("PROTOBUF", "message X {}")
    assert "no schema id" in why_not(registry, b'{"a":1}')
    assert "no schema id" in why_not(registry, b"\0\0\0")
    assert "no schema id" in why_not(registry, b"\0\x80\0\0\0"), "they are at most 2**31 - 1"
    assert "no schema with its id (id 99)" in why_not(registry, framed(99, b""))
    assert "PROTOBUF and not Avro (id 2)" in why_not(registry, framed(2, b""))


def test_a_value_that_is_no_record_is_no_row(tmp_path: Path) -> None:
    step = StagingStep(Table(avro=AvroMessages(MemoryRegistry({1: "long"}).find)), at_once=True)
    staged = step.stage(messages(framed(1, b"\2")), tmp_path / "staged")
    (rejected,) = staged.rejected
    assert "of type int, and a row needs an object" in rejected.reason


# --- the registry ---------------------------------------------------------------------------------------------------


def test_a_schema_may_name_others() -> None:
    unit = json.dumps({"type": "enum", "name": "lab.Unit", "symbols": ["C", "F"]})
    value = json.dumps(record(("unit", "lab.Unit"), ("degrees", "double"), name="lab.Value"))
    schema = AvroSchema(
        RegisteredSchema("AVRO", json.dumps(record(("x", "lab.Value"), ("u", "lab.Unit"))), [unit, value])
    )
    data = b"\2" + bytes(8) + b"\0"
    assert schema.read(data) == {"x": {"unit": "F", "degrees": 0.0}, "u": "C"}
    assert schema.columns
    assert schema.columns.read([data])["u"].to_pylist() == ["C"]


def test_the_registry_is_asked_once_for_each_schema(tmp_path: Path) -> None:
    registry, clock = MemoryRegistry({1: "long"}), [0.0]
    avro = AvroMessages(registry.find, lambda: clock[0])
    batch = messages(framed(1, b"\2"), framed(1, b"\4"), framed(9, b""), b"", b"{}", None)
    step = StagingStep(Table(avro=avro), at_once=True, few=1)
    for _ in range(3):
        step.stage(batch, tmp_path / "staged")
    assert sorted(map(str, registry.asked)) == ["1", "9"]
    registry.schemas[9] = registry.schemas[1]
    clock[0] = 31.0
    assert avro.read(framed(9, b"\6"), None) == 3, "a replica of the registry may know it later"


@pytest.mark.parametrize(("schema", "count"), [("long", 513), ({"type": "long", "doc": "x" * 3_000_000}, 3)])
def test_schemas_make_room_for_others(schema: Any, count: int) -> None:
    registry = MemoryRegistry(dict.fromkeys(range(count), schema))
    avro = AvroMessages(registry.find, lambda: 0.0)
    for number in (*range(count), count - 1, 0):
        assert avro.read(framed(number, b"\6"), None) == 3
    assert [registry.asked.count(number) for number in (count - 1, 0)] == [1, 2]


def test_junk_does_not_ask_for_each_new_id(tmp_path: Path) -> None:
    registry, clock = MemoryRegistry({50: "long"}), [0.0]
    avro = AvroMessages(registry.find, lambda: clock[0])
    reasons = [why_not_read(avro, framed(number, b"")) for number in range(100, 1_100)]
    assert len(registry.asked) == 20
    assert "no schema with its id (id 119)" in reasons[19]
    assert "requests for other ids failed" in reasons[20]
    assert "requests for other ids failed" in why_not_read(avro, framed(50, b"\6"))
    assert avro.read(framed(50, b"\6"), None) == 3, "junk seldom names an id twice"
    clock[0] = 11.0
    assert "(id 100)" in why_not_read(avro, framed(100, b"")), "what is known to be junk is not asked for again so soon"
    assert "(id 1200)" in why_not_read(avro, framed(1_200, b"")), "after a while new ones are asked for again"
    assert len(registry.asked) == 22


def test_junk_leaves_the_schemas_of_other_topics_alone() -> None:
    registry, clock = MemoryRegistry(dict.fromkeys([1, 900_000], "long")), [0.0]
    avro = AvroMessages(registry.find, lambda: clock[0])
    for second in range(600):
        clock[0] = float(second)
        for number in range(20):
            with pytest.raises(ValueError, match="schema"):
                avro.read(framed(1_000_000 + 20 * second + number, b""), None, topic="junk")
        registry.schemas[2_000_000 + second] = registry.schemas[1]
        assert avro.read(framed(2_000_000 + second, b"\6"), None, topic="orders") == 3


def test_junk_in_its_own_topic_leaves_what_the_registry_has_alone() -> None:
    registry, clock = MemoryRegistry({500: "long"}), [0.0]
    avro = AvroMessages(registry.find, lambda: clock[0])
    assert avro.read(framed(500, b"\6"), None, topic="orders") == 3
    for new in range(501, 1_101):
        clock[0] += 1.0
        registry.schemas[new] = registry.schemas[500]
        for number in range(20):
            with pytest.raises(ValueError, match="schema"):
                avro.read(framed(10**9 + 20 * new + number, b""), None, topic="orders")
        assert avro.read(framed(new, b"\6"), None, topic="orders") == 3
    assert len(registry.asked) < 600 + 60 * 40 + 1, "junk gets no more of the registry than before"


GUID = uuid.UUID("89791762-2336-4186-9674-299b90a802e2")


@pytest.mark.parametrize("schema", [7, GUID], ids=["number", "guid"])
def test_the_id_of_the_schema_may_be_in_a_header(schema: Any, tmp_path: Path) -> None:
    reading = record(("ts_ms", "long"))
    table = Table(avro=AvroMessages(MemoryRegistry({schema: reading}).find))
    prefix = b"\0" + schema.to_bytes(4) if isinstance(schema, int) else b"\1" + schema.bytes
    in_header = messages(*[b"\4"] * 5, raw_headers=[("trace", b"x"), ("__value_schema_id", prefix)])
    in_front = messages(*[prefix + b"\4"] * 5)
    for batch in (in_header, in_front):
        step = StagingStep(table, at_once=True, few=1)
        step.schema.current = type(step.schema.current)({"ts_ms": pa.int64()})
        staged = step.stage(batch, tmp_path / "staged")
        assert staged.file
        assert pq.read_table(staged.file.path)["ts_ms"].to_pylist() == [2] * 5
        assert step.reader.reads == 0


def test_a_key_has_a_header_of_its_own() -> None:
    avro = AvroMessages(MemoryRegistry({1: "long", 2: "string"}).find)
    headers = [("__value_schema_id", b"\0\0\0\0\1"), ("__key_schema_id", b"\0\0\0\0\2")]
    assert avro.read(b"\2a", headers, is_key=True) == "a"
    assert avro.read(b"\2", headers) == 1


@pytest.mark.parametrize(
    "item", ["null", {"type": "record", "name": "Empty", "fields": []}, {"type": "fixed", "name": "No", "size": 0}]
)
def test_items_that_take_no_byte_are_not_endless(item: Any) -> None:
    schema = AvroSchema(RegisteredSchema("AVRO", json.dumps(record(("x", {"type": "array", "items": item})))))
    assert len(schema.read(encoded(20) + b"\0")["x"]) == 20
    with pytest.raises(ValueError, match="does not fit"):
        schema.read(encoded(1_000) + b"\0")
