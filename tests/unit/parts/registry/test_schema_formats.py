"""JSON Schema, and keys in Avro and as bytes: many messages at once give the same as one by one."""

from typing import Any

import pytest

from app.parts.avro.avro_messages import AvroMessages
from tests.fakes.kafka_message import KafkaMessage
from tests.support.avro import MemoryRegistry, datum, framed, record
from tests.support.both_ways import Table, assert_both_agree, messages

KEY = record(("site", "string"), ("line", ["null", "long"]), name="Key")
READING = record(("ts_ms", "long"), ("x", ["null", "double"]))
GUID = b"\1" + bytes(range(16))


def keyed(*keys: Any) -> list[KafkaMessage]:
    value = framed(1, datum(READING, {"ts_ms": 5, "x": 1.5}))
    return [
        KafkaMessage(value, raw if raw is None or isinstance(raw, bytes) else framed(2, datum(KEY, raw)), at, 0)
        for at, raw in enumerate(keys)
    ]


@pytest.mark.parametrize("hive", [(), ("__key",), ("~__key",)], ids=",".join)
def test_keys_in_avro(hive: tuple[str, ...]) -> None:
    avro = AvroMessages(MemoryRegistry({1: READING, 2: KEY, 3: "string", 4: "long"}).find)
    batches = [
        keyed({"site": "a", "line": 1}, {"site": "a", "line": None}, None, {"site": "b", "line": 2}),
        keyed(framed(3, b"\2a"), framed(3, b"\2b"), framed(3, b"\2a"), framed(4, b"\2")),
        keyed({"site": "a", "line": 1}, b"no id", framed(2, b"\x08"), framed(99, b""), {"site": "c", "line": 3}),
        keyed(*[{"site": str(at % 3), "line": at % 2} for at in range(20)]),
    ]
    for order in (batches, batches[::-1]):
        assert_both_agree(Table(hive, avro=avro, avro_keys=True), order, few=2)


@pytest.mark.parametrize("hive", [(), ("__key",), ("~__key",)], ids=",".join)
def test_keys_as_bytes(hive: tuple[str, ...]) -> None:
    keys: list[list[bytes | None]] = [[b"a", None, b"\xff\0", b"a"], [b"", b"b"], [None], [b"\xe4"] * 20]
    batches = [[KafkaMessage(b'{"x":1}', key, at, 0) for at, key in enumerate(some)] for some in keys]
    for order in (batches, batches[::-1]):
        assert_both_agree(Table(hive, raw_keys=True), order, few=1)


@pytest.mark.parametrize(
    "batch",
    [
        [b"\0\0\0\0\1" + text for text in (b'{"ts_ms":1,"x":1}', b'{"ts_ms":2,"x":2.5}', b'{"ts_ms":3}')],
        [GUID + text for text in (b'{"ts_ms":1,"x":"a"}', b'{"ts_ms":2,"x":"b"}', b'{"x":"c"}')],
        [b'{"ts_ms":1}', b"\0\0\0\0\1{}", b"\0\0\0\0\1", b"", b"\0\0\0\0\1[1]", b"\0\0\0\0\1{bad", b"\0\0\0\0\1null"],
    ],
    ids=["by number", "by guid", "wrong ones"],
)
def test_json_with_the_id_of_a_schema(batch: list[bytes]) -> None:
    assert_both_agree(Table(json_schema=True), [messages(*batch * 2), messages(*batch)], few=1)


def test_json_with_the_id_of_its_schema_in_a_header() -> None:
    texts = [b'{"ts_ms":1,"x":1}', b'{"ts_ms":2,"x":2}']
    for header in (b"\0\0\0\0\1", GUID):
        batch = messages(*texts * 3, raw_headers=[("__value_schema_id", header)])
        assert_both_agree(Table(json_schema=True), [batch, batch], few=1)
