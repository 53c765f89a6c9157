"""Topics as the serializers of AWS Glue write them, with moto's server in the place of Glue."""

import json
import zlib
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import boto3
import pytest

from dev.connector import REPO, environment
from dev.glue import LocalGlue
from tests.e2e.lake import Lake
from tests.e2e.scenario import Scenario
from tests.services.main_process import run_main
from tests.support.avro import datum, framed, record

REGISTRY = "sensors"
OLD, NEW = record(("n", "long"), ("site", "string")), record(("n", "long"), ("note", ["null", "string"]))
Frame = Callable[[bytes], bytes]


@pytest.fixture
def glue() -> Iterator[LocalGlue]:
    with LocalGlue() as server:
        yield server


def frame(version: str, *, is_packed: bool) -> Frame:
    header = (b"\3\5" if is_packed else b"\3\0") + UUID(version).bytes
    return lambda data: header + (zlib.compress(data) if is_packed else data)


def frames(glue: LocalGlue, topic: str, first: Any, *more: Any) -> list[Frame]:
    """Registers versions of the topic's schema; every other one packs its data."""
    session = boto3.session.Session("local", "local", region_name="eu-west-1")
    client: Any = session.client("glue", endpoint_url=glue.endpoint_url)
    client.create_registry(RegistryName=REGISTRY)
    name = {"RegistryName": REGISTRY, "SchemaName": topic}
    kinds = {"DataFormat": "AVRO", "Compatibility": "NONE", "SchemaDefinition": json.dumps(first)}
    versions = [client.create_schema(RegistryId={"RegistryName": REGISTRY}, SchemaName=topic, **kinds)]
    versions += [client.register_schema_version(SchemaId=name, SchemaDefinition=json.dumps(each)) for each in more]
    return [frame(each["SchemaVersionId"], is_packed=bool(at % 2)) for at, each in enumerate(versions)]


def test_avro_with_a_schema_that_changes(glue: LocalGlue, scenario: Scenario) -> None:
    old, new = frames(glue, scenario.topic, OLD, NEW)
    settings = scenario.local_store | {
        "KAFKA_VALUE_DESERIALIZER": "avro",
        "SCHEMA_REGISTRY_URL": f"glue://eu-west-1/{REGISTRY}",
        "SCHEMA_REGISTRY_USERNAME": "local",
        "SCHEMA_REGISTRY_PASSWORD": "local",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",  # of a store, and not Glue's
        "AWS_ENDPOINT_URL_GLUE": glue.endpoint_url,
    }
    scenario.produce((None, old(datum(OLD, {"n": n, "site": "a"})), None, 0) for n in range(500))
    scenario.produce((None, new(datum(NEW, {"n": n, "note": "b"})), None, 0) for n in range(500, 1_000))
    unknown = frame("00000000-0000-4000-8000-000000000000", is_packed=False)
    broken = [unknown(b""), framed(1, b""), old(b"\2"), b"\3\5" + new(b"")[2:18] + b"x", new(bytes(17 << 20))]
    scenario.produce((None, value, None, 0) for value in broken)
    connector = scenario.connector(settings)
    scenario.finish(connector, 1_005)
    rows = scenario.lake.query("SELECT n, site, note FROM {source} ORDER BY n")
    assert rows == [(n, "a", None) if n < 500 else (n, None, "b") for n in range(1_000)]
    dead = Lake(scenario.folder / "lake" / "data" / "_dead_letter" / scenario.topic)
    found = dead.query('SELECT value, reason FROM {source} ORDER BY "offset"')
    assert [value for value, _ in found] == broken, "byte by byte"
    for (_, reason), told in zip(
        found, ["no schema with its id", "no schema with its id", "does not fit", "zlib", "16 MB"], strict=True
    ):
        assert told in reason

    of_check = {"CONSUMER_GROUP": scenario.group, "input": scenario.topic, "HTTP_PORT": "0"}
    of_check["KAFKA_BOOTSTRAP_SERVERS"] = scenario.kafka.bootstrap_servers
    checked = run_main(
        *("check", "--without", "spark", "broker"),
        environment=environment(settings | of_check),
        main=[str(REPO / "main.py")],
    )
    assert f"{scenario.topic} is AVRO, version 2, id " in checked.stdout
