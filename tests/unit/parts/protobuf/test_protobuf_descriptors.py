"""Schemas in Protobuf that a registry has as text: what they become, and that no text reaches beyond itself."""

import os
import resource
import subprocess
import sys
import tracemalloc
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from app.errors import RetryableError
from app.model import RegisteredSchema
from app.parts.protobuf import protobuf_descriptors
from app.parts.protobuf.protobuf_messages import ProtobufMessages, ProtobufSchema
from app.reason_texts import reason_of
from tests.support.both_ways import Table, assert_both_agree, messages
from tests.unit.parts.registry.test_glue_messages import FIRST, SECOND, packed, plain

SYNTAX = 'syntax = "proto3";'
# As AWS's serializer for Java 1.1.27 registers a message with a map.
OF_AWS = """syntax = "proto3";

package lab;

import "google/protobuf/timestamp.proto";

option java_multiple_files = true;

message Reading {
  reserved "old";
  reserved 7 to 9;

  string site = 1;

  repeated .lab.Reading.ByPortEntry by_port = 2;

  .google.protobuf.Timestamp at = 3;

  optional string note = 4 [json_name = "other"];

  message ByPortEntry {
    option map_entry = true;
  
    string key = 1;
  
    .lab.Reading.Port value = 2;
  }

  message Port {
    int64 n = 1;
  }
}
"""  # noqa: W293 - it does so
# As it registers what Kafka Connect's converter makes.
OF_CONNECT = """syntax = "proto3";

import "metadata/metadata.proto";
import "additionalTypes/decimal.proto";
import "google/type/date.proto";

message Row {
  int32 small = 1 [
    metadata.metadata_key = "connect.type",
    metadata.metadata_value = "int16"
  ];

  .additionalTypes.Decimal price = 2;

  .google.type.Date day = 3;
}
"""
PORTS = b"\x0a\x01a\x12\x07\x0a\x01p\x12\x02\x08\x05"


def of_glue(text: str) -> ProtobufSchema:
    return ProtobufSchema(RegisteredSchema("PROTOBUF", text, is_of_glue=True))


def test_the_text_of_awss_serializer_has_its_maps() -> None:
    assert of_glue(OF_AWS).read(b"\0" + PORTS) == {"site": "a", "by_port": {"p": {"n": 5}}}


def test_the_text_of_kafka_connects_converter() -> None:
    data = b"\0\x08\x05\x12\x02\x08\x07\x1a\x03\x08\xea\x0f"
    found = of_glue(OF_CONNECT).read(data)
    assert found == {
        "small": 5,
        "price": {"units": 7, "fraction": 0, "precision": 0, "scale": 0},
        "day": {"year": 2026, "month": 0, "day": 0},
    }


OPTIONS_OF_AWS = """  int32 a = 1 [
    metadata.metadata_key = "connect.type",
    metadata.metadata_value = "int16"
  ];
"""


@pytest.mark.parametrize(
    ("text", "data", "expected"),
    [
        ("message R { string map_entry = 1; }", b"\0\x0a\1x", {"map_entry": "x"}),
        ("enum E { map_entry = 0; } message R { E e = 1; }", b"\0", {"e": "map_entry"}),
        ("message map_entry { int32 a = 1; } message nb { int32 b = 1; }", b"\0\x08\5", {"a": 5}),
        (
            "message Q { repeated R r = 1; message R { option no_standard_descriptor_accessor = true; "
            "string key = 1; string value = 2; } }",
            b"\0\x0a\3\x0a\1x",
            {"r": [{"key": "x", "value": ""}]},
        ),
        (
            f'package acme.metadata;\nimport "metadata/metadata.proto";\nmessage R {{\n{OPTIONS_OF_AWS}}}\n',
            b"\0\x08\1",
            {"a": 1},
        ),
        *(
            (f'package lab;\n\nimport {how}"{name}";\n\nmessage R {{\n  string a = 1;\n}}\n', b"\0\x0a\1x", {"a": "x"})
            for how, name in (
                ("", "buf/validate/validate.proto"),
                ("", "google/api/annotations.proto"),
                ("public ", "gogoproto/gogo.proto"),
            )
        ),
        (
            'import \'a.proto\'; import weak "b.proto" ;  // why\r\nimport\t"c.proto";\r\nmessage R { string a = 1; }',
            b"\0\x0a\1x",
            {"a": "x"},
        ),
    ],
)
def test_only_what_awss_serializer_writes_is_replaced(text: str, data: bytes, expected: Any) -> None:
    assert of_glue(f"{SYNTAX}\n{text}").read(data) == expected


def test_the_number_of_a_message_counts_all_of_the_file_by_name() -> None:
    nested = "message C { int64 c = 1; } message A { message D { int64 d = 1; } }"
    last = "message A { int64 a = 1; map<string, int64> m = 2; }"
    schema = of_glue(f"{SYNTAX} message B {{ int64 b = 1; {nested} }} {last}")
    found = [schema.read(bytes([number])) for number in range(6)]
    assert found == [{"a": 0, "m": {}}, {"key": "", "value": 0}, {"b": 0}, {}, {"d": 0}, {"c": 0}]
    many = of_glue(SYNTAX + "".join(f"message M{n:03} {{ int64 f{n} = 1; }}" for n in range(300)))
    assert many.read(b"\xab\x02\x08\x07") == {"f299": 7}


def test_protobuf_of_glue_both_ways() -> None:
    later = OF_AWS.replace("string site = 1;", "string site = 1; int64 n = 5;")
    schemas = {FIRST: OF_AWS, SECOND: later}
    opened = ProtobufMessages(
        lambda version: RegisteredSchema("PROTOBUF", schemas[UUID(str(version))], is_of_glue=True)
    )
    bodies = [b"\0" + PORTS, b"\0\x0a\x01b", b"\0\x22\x01c", b"\0\x28\x07", b"\2\x08\x05", b"\7", b"", b"\0\xff"]
    draw = Random(7)  # noqa: S311 - no secret
    batches = [
        messages(*(draw.choice((plain, packed))(draw.choice((FIRST, SECOND)), draw.choice(bodies)) for _ in range(20)))
        for _ in range(6)
    ]
    assert_both_agree(Table(protobuf=opened), batches, few=2)


HOSTILE = {
    "an absolute path": 'import "{outside}";',
    "a path upwards": 'import "../../../../../../../../{outside}";',
    "a path upwards behind a known one": 'import "google/protobuf/../../../../../../../../{outside}";',
    "a device": 'import "/dev/zero";',
    "itself": 'import "the text";',
    "what no folder has": 'import "others.proto";',
    "levels": "message A{" * 100_000,
    "levels in an option": "option java_package = " + "{a:" * 100_000,
    "many messages": "".join(f"message A{n} {{}}" for n in range(200_000)),
    "a name that becomes many": f"message {'A' * 60_000} {{"
    + "".join(f"B f{n} = {n + 1};" for n in range(9_000))
    + "}",
    "no text": "\0" * 1_000_000,
    "half a character": "\ud800",
    "no message": "enum",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_text_is_the_error_of_its_schema_alone(name: str, tmp_path: Path) -> None:
    outside = tmp_path / "outside.proto"
    outside.write_text(f"{SYNTAX} message Secret {{ string told = 1; }}")
    text = SYNTAX + HOSTILE[name].replace("{outside}", str(outside)) + "message Reading { Secret secret = 1; }"
    schemas = {FIRST: text, SECOND: OF_AWS}
    opened = ProtobufMessages(
        lambda version: RegisteredSchema("PROTOBUF", schemas[UUID(str(version))], is_of_glue=True)
    )
    with pytest.raises(ValueError, match="protoc cannot read its schema") as caught:
        opened.read(plain(FIRST, b"\0"), None)
    assert len(reason_of(caught.value).whole) < 500
    assert opened.read(plain(SECOND, b"\0" + PORTS), None)["site"] == "a"


def test_what_protoc_says_of_a_text_does_not_fill_the_memory() -> None:
    errors = "B.x a = 1;" * 400  # of 40 kB each
    tracemalloc.start()
    with pytest.raises(ValueError, match="protoc cannot read its schema"):
        of_glue(f"{SYNTAX} message {'A' * 20_000} {{ message B {{}} {errors} }}")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20


def test_a_short_text_whose_names_fill_the_memory_is_refused() -> None:
    fields = "".join(f"int32 f{n} = {n + 1};" for n in range(1_000))
    with pytest.raises(ValueError, match="protoc cannot read its schema") as caught:
        of_glue(f"{SYNTAX} message {'A' * 40_000} {{ {fields} }}")
    assert sys.prefix not in reason_of(caught.value).whole


def test_a_descriptor_goes_round_protoc_only_where_the_registry_may_have_one() -> None:
    file = FileDescriptorProto(name="r.proto", package="a." * 255 + "a")
    file.message_type.add(name="R")
    text = b64encode(file.SerializeToString()).decode()
    assert ProtobufSchema(RegisteredSchema("PROTOBUF", text)).read(b"\0") == {}
    with pytest.raises(ValueError, match="protoc cannot read its schema"):
        of_glue(text)
    file.package += "a"
    with pytest.raises(ValueError, match="package is too long"):
        ProtobufSchema(RegisteredSchema("PROTOBUF", b64encode(file.SerializeToString()).decode()))


@pytest.fixture
def no_files_left() -> Iterator[None]:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.usefixtures("no_files_left")
def test_a_schema_waits_for_files() -> None:
    with pytest.raises(RetryableError, match="Too many open files"):
        of_glue(OF_AWS)


@pytest.mark.parametrize("fault", ["kill -9 $$", "kill -15 $$", "kill -2 $$", "exec /nowhere/protoc", "ulimit -v x"])
def test_a_schema_waits_for_a_machine_that_cannot_run_protoc(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_: Any, **options: Any) -> Any:
        return subprocess.run(["/bin/sh", "-c", fault], **options)  # noqa: PLW1510

    monkeypatch.setattr(protobuf_descriptors, "run", run)
    with pytest.raises(RetryableError, match="running protoc"):
        of_glue(OF_AWS)


def test_schemas_that_take_long_leave_time_for_the_records_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]

    def run(*command: Any, **options: Any) -> Any:
        clock[0] += 2.0
        return subprocess.run(*command, **options)  # noqa: PLW1510

    monkeypatch.setattr(protobuf_descriptors, "run", run)
    opened = ProtobufMessages(lambda _: RegisteredSchema("PROTOBUF", OF_AWS, is_of_glue=True), lambda: clock[0])
    for number in range(3):
        opened.read(plain(UUID(int=number), b"\0"), None)
    with pytest.raises(ValueError, match="requests for other ids failed"):
        opened.read(plain(UUID(int=3), b"\0"), None)


def test_the_numbers_of_all_messages_take_little_memory() -> None:
    names = [f"M{number:03}" for number in range(400)]
    fields = "".join(f"{name} f{number} = {number};" for number, name in enumerate(names, 1))
    schema = of_glue(
        f"{SYNTAX} message All {{ {fields} }}" + "".join(f"message {name} {{ All a = 1; }}" for name in names)
    )
    schema.read(b"\0")
    tracemalloc.start()
    for number in range(1, 400):
        schema.read(bytes([number & 127 | 128, number >> 7]))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 4 << 20


def test_texts_that_it_refers_to_take_no_longer_together(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(0, 1_000, 20))
    monkeypatch.setattr("app.parts.protobuf.protobuf_messages.monotonic", lambda: next(now))
    others = [f"{SYNTAX} message A{n} {{}}" for n in range(3)]
    with pytest.raises(ValueError, match="references take more than 30 s"):
        ProtobufSchema(RegisteredSchema("PROTOBUF", SYNTAX, others, ["a", "b", "c"]))
