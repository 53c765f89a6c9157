"""Messages of the application's topic that are read one by one: the row, or why there is none."""

import pytest
from quixstreams.models import Topic

from app.bad_records.refusals import Refusal
from app.consumer.deserializers import RegisteredDeserializer, read_message
from app.errors import RetryableError
from app.model import Row
from app.monitoring.waits import Stopped
from app.service.formats import new_formats
from tests.fakes.kafka_message import KafkaMessage
from tests.support.avro import MemoryRegistry
from tests.support.environment import load

VALUE = b'{"a":1}'


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
        (KafkaMessage(b"{"), "it does", "KAFKA_VALUE_DESERIALIZER"),
    ):
        refusal = read_message(topic, message)
        assert isinstance(refusal, Refusal)
        assert refusal.rejected.reason.startswith(f"{what} not deserialize: ")
        assert refusal.hint.startswith(f"Set {setting} ")
