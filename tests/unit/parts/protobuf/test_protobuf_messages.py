"""Messages in Protobuf: what each type becomes, one by one and many at once, and what cannot be read."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest
from google.protobuf import timestamp_pb2
from google.protobuf.descriptor_pb2 import DescriptorProto, EnumDescriptorProto, FileDescriptorProto

from app.convert.scalars import OutOfRange
from app.model import Pairs, RegisteredSchema
from app.parts.protobuf.protobuf_messages import ProtobufMessages, ProtobufSchema
from tests.support.both_ways import StagingStep, Table, assert_both_agree, messages
from tests.support.protobuf import STANDARD, class_of, field, file, framed, mapped, message, opened, registered

SCALARS = (
    *("double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64"),
    *("sfixed32", "sfixed64", "bool", "string", "bytes"),
)
_tags, _tags_entry = mapped("tags", ".lab.Reading", "string", field("value", "int64"))
_ports, _ports_entry = mapped("ports", ".lab.Reading", "bool", field("value", ".lab.Unit"))
READING = file(
    message(
        "Reading",
        *(field(kind, kind) for kind in SCALARS),
        field("unit", ".lab.Unit"),
        field("place", ".lab.Reading.Place"),
        field("values", "double", repeated=True),
        field("places", ".lab.Reading.Place", repeated=True),
        _tags,
        _ports,
        field("at", ".google.protobuf.Timestamp"),
        field("took", ".google.protobuf.Duration"),
        field("limit", ".google.protobuf.Int64Value"),
        field("more", ".google.protobuf.Struct"),
        field("maybe", "int64", proto3_optional=True, oneof_index=1),
        field("one", "string", oneof_index=0),
        field("other", "int64", oneof_index=0),
        nested=(
            message("Place", field("name", "string"), field("inside", ".lab.Reading.Place")),
            _tags_entry,
            _ports_entry,
        ),
    ),
    message("Other", field("x", "int64")),
    package="lab",
    dependency=[each.DESCRIPTOR.name for each in STANDARD],
)
for _name in ("either", "_maybe"):
    READING.message_type[0].oneof_decl.add(name=_name)
READING.enum_type.add().CopyFrom(EnumDescriptorProto(name="Unit"))
READING.enum_type[0].options.allow_alias = True
for _number, _name in ((0, "CELSIUS"), (1, "KELVIN"), (1, "ABSOLUTE")):
    READING.enum_type[0].value.add(name=_name, number=_number)


Reading = class_of("lab.Reading", READING)
UNSET = {
    **dict.fromkeys(SCALARS, 0),
    "bool": False,
    "string": "",
    "bytes": b"",
    "unit": "CELSIUS",
    **{name: [] for name in ("values", "places")},
    **{name: Pairs() for name in ("tags", "ports")},
}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda m: m.Clear(), {}),
        (lambda m: m.MergeFrom(Reading(double=0.1, float=0.5)), {"double": 0.1, "float": 0.5}),
        (lambda m: m.MergeFrom(Reading(int64=-(2**63), uint64=2**64 - 1)), {"int64": -(2**63), "uint64": 2**64 - 1}),
        (lambda m: m.MergeFrom(Reading(bytes=b"\xff", string="ü")), {"bytes": b"\xff", "string": "ü"}),
        (lambda m: m.MergeFrom(Reading(unit=1)), {"unit": "KELVIN"}),
        (lambda m: m.MergeFrom(Reading(unit=7)), {"unit": "7"}),
        (lambda m: m.place.inside.SetInParent(), {"place": {"name": "", "inside": {"name": ""}}}),
        (lambda m: m.MergeFrom(Reading(values=[1, 2.5])), {"values": [1.0, 2.5]}),
        (lambda m: m.places.add(name="a"), {"places": [{"name": "a"}]}),
        (lambda m: m.tags.update({"a": 1}), {"tags": Pairs({"a": 1})}),
        (lambda m: m.ports.update({True: 1}), {"ports": Pairs({"true": "KELVIN"})}),
        (
            lambda m: m.at.MergeFromString(timestamp_pb2.Timestamp(seconds=-1, nanos=999_999_999).SerializeToString()),
            {"at": datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)},
        ),
        (lambda m: setattr(m.at, "seconds", 2**40), {"at": OutOfRange(2**40 * 10**6)}),
        (lambda m: m.took.FromJsonString("-1.5s"), {"took": -1.5}),
        (lambda m: m.limit.SetInParent(), {"limit": 0}),
        (lambda m: m.more.update({"a": [1, None]}), {"more": {"a": [1.0, None]}}),
        (lambda m: m.MergeFrom(Reading(maybe=0)), {"maybe": 0}),
        (lambda m: m.MergeFrom(Reading(one="")), {"one": ""}),
        (lambda m: m.MergeFrom(Reading(other=3)), {"other": 3}),
    ],
)
def test_each_type_becomes_a_value(change: Callable[[Any], None], expected: dict[str, Any]) -> None:
    given = Reading()
    change(given)
    found = opened(registered(READING)).read(framed(1, given.SerializeToString()), None)
    assert found == UNSET | expected
    assert {name: type(value) for name, value in found.items()} == {
        name: type({**UNSET, "double": 0.0, "float": 0.0, **expected}[name]) for name in found
    }


@pytest.mark.parametrize(
    "settings",
    [{}, {"hive": ("unit", "string")}, {"hive": ("place.name", "more.x")}, {"types": "int64:double,place:string"}],
)
def test_many_at_once_are_read_as_one_by_one(settings: dict[str, Any]) -> None:
    draw = Random(7)  # noqa: S311 - no secret

    def drawn() -> bytes:
        given = Reading(
            int64=draw.choice((0, -1, 2**53 + 1)),
            double=draw.choice((0.0, -0.0, 1.5, float("nan"))),
            string=draw.choice(("", "ü")),
            bytes=draw.choice((b"", b"\xff")),
            unit=draw.choice((0, 1, 9)),
            values=draw.choice(([], [1.5])),
            uint64=draw.choice((0, 0, 0, 0, 0, 2**63)),
        )
        if draw.random() < 0.5:
            given.place.name = "a"
            given.at.seconds = draw.choice((0, 10**9, 10**9, 10**9, 2**50))
            given.maybe = 5
            given.tags["a"] = 1
            given.limit.value = 2
        return framed(1, given.SerializeToString())

    batches = [messages(*(drawn() for _ in range(30)), first=30 * number) for number in range(6)]
    batches.append(messages(*(framed(1, bytes([0x30, number])) for number in range(9)), b"", framed(9, b""), first=200))
    assert_both_agree(Table(protobuf=opened(registered(READING)), **settings), batches, few=2)


def test_a_schema_that_grows_brings_its_columns(tmp_path: Path) -> None:
    before, after = (file(message("R", field("ts_ms", "int64"), *fields)) for fields in ((), (field("new", "string"),)))
    step = StagingStep(Table(protobuf=opened(registered(before), registered(after))), at_once=True, few=1)
    old, new = class_of("R", before)(ts_ms=1), class_of("R", after)(ts_ms=2, new="x")
    values = [framed(number, each.SerializeToString()) for number, each in ((1, old), (2, new), (1, old))]
    staged = step.stage(messages(*values), tmp_path / "staged")
    assert staged.rejected == ()
    assert str(step.schema.current.columns["new"]) == "string"


@pytest.mark.parametrize(
    ("path", "name"),
    [(b"\0", "A"), (b"\2\0", "A"), (b"\2\2", "B"), (b"\4\2\0", "B.C"), (b"\6\2\0\0", "B.C.D")],
)
def test_the_path_names_the_message(path: bytes, name: str) -> None:
    text = field("text", "string")
    deep = message("C", text, nested=[message("D", text)])
    schema = file(message("A", text), message("B", text, nested=[deep]))
    data = class_of(name, schema)(text=name).SerializeToString()
    assert opened(registered(schema)).read(framed(1, data, path), None) == {"text": name}
    guid = b"\1" + bytes(16)
    by_header = ProtobufMessages(lambda _: registered(schema))
    assert by_header.read(data, [("__value_schema_id", guid + path)]) == {"text": name}


def test_a_schema_may_import_others() -> None:
    unit = file(message("Unit", field("name", "string")), name="lab/unit.proto", package="lab")
    value = file(message("Value", field("unit", ".lab.Unit")), name="value.proto", dependency=["lab/unit.proto"])
    schema = file(
        message("R", field("value", ".Value"), field("at", ".google.protobuf.Timestamp")),
        dependency=["confluent/meta.proto", "value.proto", "google/protobuf/timestamp.proto"],
        public_dependency=[1],
    )
    found = ProtobufSchema(registered(schema, unit, value))
    assert found.read(b"\0\x0a\x05\x0a\x03\x0a\x01C") == {"value": {"unit": {"name": "C"}}}


@pytest.mark.parametrize(
    "second",
    [
        message("B", field("n", "int64"), field("s", "string"), field("more", "bool")),
        message("B", field("n", "double"), field("s", "bytes")),
        message("B", field("s", ".B.S"), nested=(message("S", field("x", "int64")),)),
        message("B"),
    ],
    ids=["more fields", "other types", "an object", "no field"],
)
def test_messages_of_two_schemas_at_once_are_read_as_one_by_one(second: DescriptorProto) -> None:
    schemas = file(message("A", field("n", "int64"), field("s", "string"))), file(second)
    draw = Random(7)  # noqa: S311 - no secret
    bodies = b"", b"\x08\x07", b"\x12\x01a", b"\x08\x07\x12\x01a", b"\x12\x02\x08\x05"
    batches = [
        messages(*(framed(draw.choice((1, 2)), draw.choice(bodies)) for _ in range(20)), first=20 * number)
        for number in range(6)
    ]
    assert_both_agree(Table(protobuf=opened(*map(registered, schemas)), hive=("s",)), batches, few=2)


def test_defaults_of_the_former_syntax() -> None:
    schema = FileDescriptorProto(syntax="proto2", name="b.proto")
    schema.message_type.add().CopyFrom(message("R", field("n", "int64", default_value="5"), field("m", "int64")))
    assert ProtobufSchema(registered(schema)).read(b"\0") == {"n": 5}


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "no schema id"),
        (b'{"a": 1}', "no schema id"),
        (framed(9, b""), "no schema with its id (id 9)"),
        (framed(2, b""), "AVRO and not Protobuf (id 2)"),
        (framed(3, b""), "protoc cannot read its schema: "),
        (framed(4, b""), "its schema cannot be used"),
        (framed(1, b"", b""), "does not say which message"),
        (framed(1, b"", b"\2\x20"), "no message at the path [16]"),
        (framed(1, b"\x0a\xff"), "does not fit the message lab.Reading"),
        (framed(1, b"\x72\x01\xff"), "does not fit the message lab.Reading"),
    ],
)
def test_what_is_wrong_with_a_message_is_named(raw: bytes, reason: str, tmp_path: Path) -> None:
    lost = file(message("R", field("x", ".gone.X")), dependency=["gone.proto"])
    schemas = registered(READING), RegisteredSchema("AVRO", '"long"'), RegisteredSchema("PROTOBUF", "message {}")
    step = StagingStep(Table(protobuf=opened(*schemas, registered(lost))), at_once=True, few=1)
    staged = step.stage(messages(raw), tmp_path / "staged")
    (rejected,) = staged.rejected
    assert reason in rejected.reason.whole
    assert rejected.value == raw


def test_messages_within_messages_in_too_many_levels_end_nothing(tmp_path: Path) -> None:
    many = [message(f"M{level}", field("x", f".M{level + 1}")) for level in range(1_500)]
    deep = file(*many, message("M1500", field("x", "int64")))
    sound = file(message("Sound", field("x", "int64")))
    step = StagingStep(Table(protobuf=opened(registered(deep), registered(sound))), at_once=True, few=1)
    staged = step.stage(messages(framed(1, b""), framed(2, b"\x08\x07"), framed(1, b"")), tmp_path / "staged")
    assert [each.reason for each in staged.rejected] == [staged.rejected[0].reason] * 2
    assert "too many levels" in staged.rejected[0].reason


def test_a_short_message_that_would_take_gigabytes_is_refused_before_it_is_read(tmp_path: Path) -> None:
    wide = message("Wide", *(field(f"x{number}", "int64") for number in range(100)))
    schema = file(message("Root", field("n", "int64"), field("many", ".Wide", repeated=True)), wide)
    bomb, sound = b"\x12\0" * 100_000, b"\x08\x07" + b"\x12\x02\x08\x01" * 100
    step = StagingStep(Table(protobuf=opened(registered(schema))), at_once=True, few=1)
    staged = step.stage(messages(framed(1, bomb), framed(1, sound)), tmp_path / "staged")
    assert [each.reason for each in staged.rejected] == ["it does not deserialize: it would take too much memory"]
    assert pq.read_table(tmp_path / "staged")["n"].to_pylist() == [7]


def test_a_map_whose_entries_have_other_names_spoils_its_records_alone(tmp_path: Path) -> None:
    entry = message("AEntry", field("foo", "string"), field("bar", "int64"))
    entry.options.map_entry = True
    odd = file(message("M", field("n", "int64"), field("a", ".M.AEntry", repeated=True), nested=[entry]))
    sound = file(message("Sound", field("n", "int64")))
    step = StagingStep(Table(protobuf=opened(registered(odd), registered(sound))), at_once=True, few=1)
    staged = step.stage(messages(framed(1, b"\x08\1"), framed(2, b"\x08\x07"), framed(1, b"")), tmp_path / "staged")
    assert len(staged.rejected) == 2
    assert pq.read_table(tmp_path / "staged")["n"].to_pylist() == [7]
