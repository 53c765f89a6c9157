"""Topics in Avro and Protobuf, as Confluent's own serializers write them."""

import json
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from dev.schema_registry import LocalSchemaRegistry
from tests.e2e.lake import Lake
from tests.e2e.scenario import Scenario, tree_of
from tests.fakes.schema_registry import FakeSchemaRegistry
from tests.support.avro import framed, record
from tests.support.protobuf import field, file, message

AT = {"type": "long", "logicalType": "timestamp-millis"}
SITE = {"type": "enum", "name": "Site", "symbols": ["A", "B"]}
READING = record(("n", "long"), ("moment", AT), ("site", SITE), ("tags", {"type": "map", "values": "double"}))
LATER = record(("n", "long"), ("moment", AT), ("note", ["null", "string"]))
KEY = record(("device", "string"), name="Key")
FIRST_MS = 1_704_067_200_000


@pytest.fixture
def registry() -> Iterator[FakeSchemaRegistry]:
    with FakeSchemaRegistry() as server:
        yield server


def serializer(
    registry: FakeSchemaRegistry | LocalSchemaRegistry, topic: str, schema: Any, field: str = MessageField.VALUE
) -> Callable[[Any], bytes]:
    client = SchemaRegistryClient({"url": registry.url})
    serialize: Any = AvroSerializer(client, json.dumps(schema))
    return lambda value: bytes(serialize(value, SerializationContext(topic, field)))


def reading(n: int) -> dict[str, Any]:
    return {
        "n": n,
        "moment": FIRST_MS + n * 3_600_000,
        "site": "AB"[n % 2],
        "tags": {f"n{n}": n / 2} if n != 500 else {},
    }


AVRO = {"KAFKA_VALUE_DESERIALIZER": "avro", "TIMESTAMP_COLUMN": "moment", "HIVE_COLUMNS": "year,month,day"}


@pytest.mark.parametrize(
    "lane", ["plain", *(pytest.param(lane, marks=pytest.mark.night) for lane in ("transforming", "framework"))]
)
def test_avro_with_schemas_that_change_and_a_registry_that_is_away(
    scenario: Scenario, registry: FakeSchemaRegistry, tmp_path: Path, lane: str
) -> None:
    old, new = (serializer(registry, scenario.topic, schema) for schema in (READING, LATER))
    keys = serializer(registry, scenario.topic, KEY, MessageField.KEY)
    scenario.produce((keys({"device": f"d{n % 3}"}), old(reading(n)), None, 0) for n in range(1_000))
    settings = AVRO | {"KAFKA_KEY_DESERIALIZER": "avro", "SCHEMA_REGISTRY_URL": registry.url}
    connector = scenario.connector(scenario.local_store | settings, root=tree_of(lane, tmp_path))
    scenario.wait_until_committed(1_000, connector)

    *later, last = [new({"n": n, "moment": FIRST_MS, "note": "x"}) for n in range(1_000, 1_100)]
    registry.denied = {98}
    junk = [b"\1is a GUID at best", b"\0\xff\xff\xff\xff"]
    broken = [framed(1, b"\2"), framed(99, b""), b'{"n":1}', framed(98, b""), *junk]
    registry.status = HTTPStatus.UNAUTHORIZED
    scenario.produce((None, value, None, 0) for value in [*later, *broken, last])
    connector.wait_for_log(r"WARNING.*asking the schema registry at .* answered 401")
    registry.status = HTTPStatus.SERVICE_UNAVAILABLE
    connector.wait_for_log(r"WARNING.*asking the schema registry at .* answered 503")
    assert scenario.committed() == [1_000]
    registry.status = None
    scenario.finish(connector, 1_106)

    source = scenario.lake.query(
        "SELECT n, epoch_ms(moment), site, tags, note, __key.device, year, month, day FROM {source} ORDER BY n"
    )
    assert [row[:4] for row in source[:1_000]] == [tuple(reading(n).values()) for n in range(1_000)]
    assert [row[5] for row in source[:1_000]] == [f"d{n % 3}" for n in range(1_000)]
    assert [row[:6] for row in source[1_000:]] == [(n, FIRST_MS, None, None, "x", None) for n in range(1_000, 1_100)]
    assert list(map(int, source[0][6:])) == [2024, 1, 1]
    dead = Lake(scenario.folder / "lake" / "data" / "_dead_letter" / scenario.topic)
    found = dead.query('SELECT value, reason FROM {source} ORDER BY "offset"')
    assert [value for value, _ in found] == broken, "byte by byte"
    assert "does not fit its Avro schema" in found[0][1]
    assert "no schema with its id: see SCHEMA_REGISTRY_URL (id 99)" in found[1][1]
    assert "no schema id" in found[2][1]
    assert "refuses its schema" in found[3][1]
    assert "answered 403" in found[3][1]
    assert "refuses its schema" in found[4][1], "while the registry answers, this is no outage"
    assert "no schema id" in found[5][1]
    assert registry.asked.count("/schemas/ids/1") == 1


def test_protobuf_as_a_serializer_writes_it(scenario: Scenario, registry: FakeSchemaRegistry) -> None:
    unit = file(message("Unit", field("name", "string")), name="lab/unit.proto", package="lab")
    fields = field("n", "int64"), field("unit", ".lab.Unit"), field("tags", "string", repeated=True)
    wrapping = message("Wrapping", field("x", "int64"), nested=[message("Reading", *fields)])
    schema = file(wrapping, name="reading.proto", dependency=["lab/unit.proto"])
    pool = DescriptorPool()
    for each in (unit, schema):
        pool.Add(each)
    reading = GetMessageClass(pool.FindMessageTypeByName("Wrapping.Reading"))
    client = SchemaRegistryClient({"url": registry.url})
    serialize: Any = ProtobufSerializer(reading, client, {"use.deprecated.format": False})

    def written(n: int) -> bytes:
        value = reading(n=n, unit={"name": f"u{n % 3}"}, tags=["a", "b"])
        return bytes(serialize(value, SerializationContext(scenario.topic, MessageField.VALUE)))

    scenario.produce((None, written(n), None, 0) for n in range(1_000))
    broken = written(0)[:-1]
    scenario.produce([(None, broken, None, 0)])
    settings = {"KAFKA_VALUE_DESERIALIZER": "protobuf", "SCHEMA_REGISTRY_URL": registry.url}
    connector = scenario.connector(scenario.local_store | settings)
    scenario.finish(connector, 1_001)
    rows = scenario.lake.query("SELECT n, unit.name, tags FROM {source} ORDER BY n")
    assert rows == [(n, f"u{n % 3}", ["a", "b"]) for n in range(1_000)]
    dead = Lake(scenario.folder / "lake" / "data" / "_dead_letter" / scenario.topic)
    [(value, reason)] = dead.query("SELECT value, reason FROM {source}")
    assert value == broken
    assert "does not fit the message Wrapping.Reading" in reason


def test_a_real_registry(scenario: Scenario, schema_registry: LocalSchemaRegistry) -> None:
    client = SchemaRegistryClient({"url": schema_registry.url})
    unit = {"type": "enum", "name": "lab.Unit", "symbols": ["C", "F"]}
    client.register_schema(f"{scenario.topic}-unit", Schema(json.dumps(unit), "AVRO"))
    references = [SchemaReference("lab.Unit", f"{scenario.topic}-unit", 1)]
    naming = Schema(json.dumps(record(("n", "long"), ("unit", "lab.Unit"))), "AVRO", references)
    named = client.register_schema(f"{scenario.topic}-of-lab-value", naming)
    old, new = (serializer(schema_registry, scenario.topic, schema) for schema in (READING, LATER))
    scenario.produce((None, old(reading(n)), None, 0) for n in range(1_000))
    connector = scenario.connector(scenario.local_store | AVRO, SCHEMA_REGISTRY_URL=schema_registry.url)
    scenario.wait_until_committed(1_000, connector)

    later = [new({"n": n, "moment": FIRST_MS, "note": "x"}) for n in range(1_000, 1_100)]
    schema_registry.pause()
    scenario.produce((None, value, None, 0) for value in [*later, framed(10**9, b""), framed(named, b"\1\2")])
    connector.wait_for_log(r"WARNING.*asking the schema registry at ")
    schema_registry.resume()
    scenario.finish(connector, 1_102)

    rows = scenario.lake.query("SELECT n, unit, site, note FROM {source} ORDER BY n")
    assert rows[0] == (-1, "F", None, None)
    assert rows[1:1_001] == [(n, None, "AB"[n % 2], None) for n in range(1_000)]
    assert rows[1_001:] == [(n, None, None, "x") for n in range(1_000, 1_100)]
    dead = Lake(scenario.folder / "lake" / "data" / "_dead_letter" / scenario.topic)
    ((reason,),) = dead.query("SELECT reason FROM {source}")
    assert "(id 1000000000)" in reason
