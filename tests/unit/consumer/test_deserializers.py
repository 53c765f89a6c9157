"""JSON whose whole numbers stay what they are, however large; single messages: the row, or why there is none."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quixstreams.models import Topic
from quixstreams.models.serializers import DESERIALIZERS, SerializationContext, SerializationError

from app.bad_records.refusals import Refusal
from app.consumer.deserializers import RegisteredDeserializer, new_deserializer, read_message
from app.errors import RetryableError
from app.model import RegisteredSchema, Row
from app.monitoring.waits import Stopped
from app.service.formats import new_formats
from tests.fakes.kafka_message import KafkaMessage
from tests.support.avro import MemoryRegistry, framed
from tests.support.environment import load

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
    assert found == text or "nested too deeply for a text with a number of so many digits" in found


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**25), 10**25)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(VALUES)
def test_whatever_is_written_is_read(value: Any) -> None:
    try:
        text = json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return
    assert repr(deserialized(text)) == repr(value)


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
        is_advised = refusal.hint.startswith("Set KAFKA_VALUE_DESERIALIZER to what the producer writes")
        assert is_advised is is_another, refusal
        assert "ON_BAD_RECORD" in refusal.hint
