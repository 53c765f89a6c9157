"""What reads keys and values, by the settings: JSON with whole numbers of any size, single messages, a registry."""

import json
import ssl
import threading
from pathlib import Path
from typing import Any

import pytest
import trustme
from quixstreams.models import Topic
from quixstreams.models.serializers import DESERIALIZERS, SerializationContext, SerializationError

from app.bad_records.refusals import Refusal
from app.errors import RetryableError
from app.model import RegisteredSchema, Row, SchemaId
from app.monitoring.metrics import Metrics
from app.parts import FORMATS
from app.parts.registry.connection import new_registry
from app.retries import Stopped
from app.service.formats import RegisteredDeserializer, new_deserializer, new_formats, read_message, waiting
from tests.fakes.kafka_message import KafkaMessage
from tests.fakes.schema_registry import FakeSchemaRegistry
from tests.support.avro import MemoryRegistry, framed
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
    assert (built.read_key is not None) == (row.keys_at_once and name != "str")
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


VALUE = b'{"a":1}'
LARGE = [2**63, 2**64 - 1, 2**64, 2**64 + 1, -(2**63) - 1, -(2**64), 10**30 + 7, 12345678901234567890123, 10**300 + 1]


def deserialized(text: str | bytes, name: str = "json", headers: Any = None) -> Any:
    context = SerializationContext(topic="t", field="value", headers=headers)
    return new_deserializer(name)(text.encode() if isinstance(text, str) else text, context)


def outcome(deserializer: Any, text: bytes) -> str:
    try:
        return repr(deserializer(text, SerializationContext(topic="t", field="value")))
    except SerializationError as error:
        return f"refused: {error}"


@pytest.mark.parametrize("number", LARGE)
@pytest.mark.parametrize(
    "text", ["%d", "[%d]", '{"a":%d}', '{"a":{"b":[1.5,%d]},"ü":"x"}', '{"a" : %d \n}', "[0.1,%d]"]
)
def test_whole_numbers_of_any_size_stay_whole_and_exact(number: int, text: str) -> None:
    assert repr(deserialized(text % number)) == repr(json.loads(text % number))


@pytest.mark.parametrize(
    "text",
    [
        "1" + "0" * 25 + ".0",
        "12345678901234567890e0",
        "-0.0",
        "1e-400",
        '"12345678901234567890"',
        '{"a":12345678901234567890,"a":"\\u00fc\\ud83d\\ude00"}',
    ],
)
def test_other_numbers_and_texts_are_as_ever(text: str) -> None:
    assert repr(deserialized(text)) == repr(json.loads(text))


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"12345678901234567890,",
        b"[NaN,12345678901234567890]",
        b"012345678901234567890",
        b"\xef\xbb\xbf12345678901234567890",
        b'["\xff",12345678901234567890]',
        b'["\\ud800",12345678901234567890]',
        b'["\t",12345678901234567890]',
        b"9" * 400,
        b"1e400",
        "[12345678901234567890]".encode("utf-16"),
        b"[" * 1100 + b"12345678901234567890" + b"]" * 1100,
    ],
)
def test_what_the_framework_refuses_is_refused_with_the_same_words(text: bytes) -> None:
    framework = outcome(DESERIALIZERS["json"](), text)
    assert framework.startswith("refused")
    assert outcome(new_deserializer("json"), text) == framework


def test_nesting_that_the_slower_library_cannot_read_is_refused_and_never_changed() -> None:
    before, after = "[" * 1000, "]" * 1000
    assert deserialized(f"{before}1{after}")
    text = f"{before}{2**64}{after}"
    found = outcome(new_deserializer("json"), text.encode())
    # Python 3.11 refuses it, later ones read it.
    assert found == text or "it contains a number of 19 digits or more, and too many levels" in found


def test_messages_of_the_platform_keep_them_too() -> None:
    body = json.dumps({"Timestamp": 1, "Id": "e", "Value": 2**70}).encode()
    headers = [("__Q_ModelKey", b"EventData"), ("__Q_CodecId", b"J")]
    [event] = deserialized(body, "quix", headers)
    assert event["Value"] == 2**70
    assert repr(event["Value"]) == repr(2**70)


@pytest.mark.parametrize("name", ["str", "string", "bytes", "double", "int", "integer", "json", "quix"])
def test_every_deserializer_of_the_settings_is_there(name: str) -> None:
    assert isinstance(new_deserializer(name), DESERIALIZERS[name])


def test_a_message_becomes_a_row_that_keeps_it() -> None:
    message = KafkaMessage(VALUE, b"k", raw_headers=[("h", b"v")])
    row = read_message(Topic("sensors", value_deserializer="json", key_deserializer="str"), message)
    assert isinstance(row, Row)
    assert row.value == {"a": 1}
    assert row.message is message


@pytest.mark.parametrize("error", [RetryableError("asking for a schema", "refused"), Stopped()])
def test_a_message_is_not_refused_while_the_schema_registry_is_away(error: Exception) -> None:
    def ask(*_: object) -> None:
        raise error

    topic = Topic("sensors", value_deserializer=RegisteredDeserializer(ask), key_deserializer="str")
    with pytest.raises(type(error)):
        read_message(topic, KafkaMessage(VALUE))


@pytest.mark.parametrize("kind", ["str", "integer", "double", "json", "avro"])
def test_a_key_that_does_not_deserialize_is_called_the_key(kind: str) -> None:
    settings = load(KAFKA_KEY_DESERIALIZER=kind, SCHEMA_REGISTRY_URL="http://registry" if kind == "avro" else "")
    formats = new_formats(settings, MemoryRegistry({}).find if kind == "avro" else None)
    topic = Topic("sensors", value_deserializer=formats.value, key_deserializer=formats.key)
    for message, what, setting in (
        (KafkaMessage(VALUE, b"\xff"), "its key does", "KAFKA_KEY_DESERIALIZER"),
        (KafkaMessage(b"no JSON"), "it does", "KAFKA_VALUE_DESERIALIZER"),
    ):
        refusal = read_message(topic, message)
        assert isinstance(refusal, Refusal)
        assert refusal.rejected.reason.startswith(f"{what} not deserialize: ")
        assert refusal.hint.startswith(f"Set {setting} ")


NUMBER = {"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}]}


@pytest.mark.parametrize(
    ("kind", "value", "is_another"),
    [
        ("json", b'{"n":', False),
        ("json", b' {"n":"\xe9"}', False),
        ("json", framed(1, b"\2"), True),
        ("json", b"eighteen", True),
        ("quix", b'[{"n":1}]', True),
        ("int", b'{"n":1}', True),
        ("str", b"\xff\xfe", True),
        ("json-schema", framed(1, b'{"n":'), False),
        ("json-schema", b'{"n":1}', True),
        ("json-schema", framed(1, b"\2"), True),
        ("avro", b'{"n":1}', True),
        ("avro", b"\2", True),
        ("avro", framed(1, b"\2\2"), False),
        ("avro", framed(7, b"\2"), False),  # the registry does not know this schema
        ("avro", b"\3\5" + bytes(16) + b"cut off", False),
        ("avro", framed(2, b"\2"), True),  # a schema of Protobuf
    ],
)
def test_another_deserializer_is_advised_only_where_the_bytes_look_like_another_format(
    kind: str, value: bytes, is_another: bool
) -> None:
    registry = MemoryRegistry({1: NUMBER})
    registry.schemas[2] = RegisteredSchema("PROTOBUF", 'syntax = "proto3";')
    url = "http://registry" if kind == "avro" else ""
    formats = new_formats(load(KAFKA_VALUE_DESERIALIZER=kind, SCHEMA_REGISTRY_URL=url), registry.find)
    topic = Topic("sensors", value_deserializer=formats.value, key_deserializer=formats.key)
    for _ in range(2):  # the second time nobody asks the registry
        refusal = read_message(topic, KafkaMessage(value))
        assert isinstance(refusal, Refusal)
        is_advised = refusal.hint.startswith("Set KAFKA_VALUE_DESERIALIZER to the format of the producer")
        assert is_advised is is_another, refusal
        assert "ON_BAD_RECORD" in refusal.hint
