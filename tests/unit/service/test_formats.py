"""What reads keys and values, by the settings; and the wait for the schema registry on the consuming thread."""

import ssl
import threading
from pathlib import Path

import pytest
import trustme

from app.errors import RetryableError
from app.model import RegisteredSchema, SchemaId
from app.monitoring.metrics import Metrics
from app.parts import FORMATS
from app.parts.registry.connection import new_registry
from app.service.formats import new_formats, waiting
from tests.fakes.schema_registry import FakeSchemaRegistry
from tests.support.environment import load

LONG = RegisteredSchema("AVRO", '"long"')
AWAY = RetryableError("asking for a schema", "refused").of("registry")
AVRO = {"KAFKA_VALUE_DESERIALIZER": "avro"}


def no_answer(_: SchemaId) -> RegisteredSchema:
    raise AWAY


def test_the_process_ends_before_kafka_throws_the_member_out() -> None:
    with pytest.raises(RetryableError, match="refused"):
        waiting(no_answer, Metrics().waits, 0.0, threading.Event())(1)


def test_a_stop_ends_the_wait_without_a_bad_record() -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(RetryableError, match="the process stops"):
        waiting(no_answer, Metrics().waits, 60.0, stop)(1)


@pytest.mark.parametrize("name", FORMATS)
def test_what_a_row_of_the_table_names_is_built(name: str) -> None:
    row = FORMATS[name]
    kinds = {"KAFKA_VALUE_DESERIALIZER": name, "KAFKA_KEY_DESERIALIZER": name if row.is_of_keys else "str"}
    settings = load(**kinds, SCHEMA_REGISTRY_URL="http://registry" if row.needs_registry else "")
    built = new_formats(settings, no_answer if row.needs_registry else None)
    assert (built.parser is not None) == bool(row.messages)
    assert (built.read_key is not None) == bool(row.messages and row.keys_at_once)
    assert built.ask_with is not None
    built.ask_with(lambda work: work())


@pytest.mark.parametrize("as_text", [True, False])
def test_certificates(tmp_path: Path, as_text: bool) -> None:
    authority = trustme.CA()
    server_side = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(server_side)
    authority.configure_trust(server_side)
    server_side.verify_mode = ssl.CERT_REQUIRED
    client = authority.issue_cert("client@example.com")
    pems = {
        "SCHEMA_REGISTRY_SSL_CA_LOCATION": authority.cert_pem,
        "SCHEMA_REGISTRY_SSL_CERTIFICATE": client.cert_chain_pems[0],
        "SCHEMA_REGISTRY_SSL_KEY": client.private_key_pem,
    }
    variables = {name: pem.bytes().decode().strip() for name, pem in pems.items()}
    if not as_text:
        for name, text in variables.items():
            (tmp_path / name).write_text(text)
            variables[name] = str(tmp_path / name)
    with FakeSchemaRegistry() as server:
        server.register("sensors-value", {"schema": '"long"'})
        server.speak_tls(server_side)
        url = server.url.replace("http:", "https:")
        scratch = tmp_path / "scratch"
        scratch.mkdir()
        settings = load(**AVRO, **variables, SCHEMA_REGISTRY_URL=url)
        assert new_registry(settings, scratch).find(1) == LONG
        without = load(**AVRO, SCHEMA_REGISTRY_URL=url)
        with pytest.raises(RetryableError, match="SCHEMA_REGISTRY_SSL_CA_LOCATION"):
            new_registry(without, scratch).find(1)


def test_of_several_topics_the_first_names_the_subject() -> None:
    with FakeSchemaRegistry() as server:
        server.register("first-value", {"schema": '"long"'})
        settings = load(
            **AVRO, SCHEMA_REGISTRY_URL=server.url, input=",".join(["first", *map("t{}".format, range(100))])
        )
        assert new_registry(settings, Path()).latest() == 'AVRO, version 1, id 1: "long"'
