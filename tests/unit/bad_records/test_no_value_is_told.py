"""A bad record's value, key and headers are in the dead letter, and in nothing that is logged or shown."""

import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from quixstreams.dataframe import StreamingDataFrame
from quixstreams.models import Topic

from app.bad_records import dead_letter
from app.bad_records.refusals import BadRecords, Refusal
from app.consumer.errors import ended, translated
from app.consumer.plain.transformer import Transformer, stateless_dataframe
from app.errors import DataError
from app.model import Rejected
from app.parts.avro.avro_messages import AvroMessages
from app.parts.protobuf.protobuf_messages import ProtobufMessages
from app.service.formats import new_formats, read_message
from tests.fakes.clock import Clock
from tests.fakes.kafka_message import KafkaMessage
from tests.support.avro import MemoryRegistry, framed, record
from tests.support.batches import UNBOUNDED, batch, spec, stage, stager
from tests.support.both_ways import StagingStep, Table
from tests.support.environment import load
from tests.support.protobuf import field, file, message, registered

CANARY = "4111-1111-canary"  # of 16 bytes, as many as a GUID has
RAW = CANARY.encode()
JSON = json.dumps({"a": CANARY}).encode()
HEADERS = [("__value_schema_id", RAW)]
LETTERS = AvroMessages(MemoryRegistry({1: record(("a", "string")), 2: "long"}).find)


def protobuf() -> ProtobufMessages:
    schema = registered(file(message("Reading", field("a", "string"))))
    return ProtobufMessages(lambda _: schema)


def told_of(rejected: Rejected, caplog: pytest.LogCaptureFixture) -> str:
    """All that is logged and shown of a bad record, whatever the user chose; it is in the dead letter."""
    (kept,) = dead_letter.to_table([rejected]).to_pylist()
    assert CANARY in repr(kept)
    told: list[str] = [caplog.text]
    BadRecords("dead-letter", told.append).keep(rejected, "Mend it")
    BadRecords("skip", told.append).keep(rejected, "Mend it")
    with pytest.raises(DataError) as caught:
        BadRecords("fail", told.append).keep(rejected, "Mend it")
    told.append(str(caught.value))
    assert all(f"{rejected.tp} at offset {rejected.offset}" in each for each in told[1:])
    return "\n".join(told)


def assert_not_told(told: str) -> None:
    assert CANARY not in told
    assert RAW.hex() not in told.replace("-", "")


MESSAGES: Mapping[str, tuple[Table, KafkaMessage, str]] = {
    "no JSON": (Table(), KafkaMessage(b'{"a": %s}' % RAW), "JSONDecodeError"),
    "no object": (Table(), KafkaMessage(json.dumps([CANARY]).encode()), "type list"),
    "too deep": (Table(), KafkaMessage(b"[" * 100_000 + RAW), "JSONDecodeError"),
    "a timestamp": (Table(("year",)), KafkaMessage(json.dumps({"ts_ms": CANARY}).encode()), "type str"),
    "a list for a timestamp": (Table(("year",)), KafkaMessage(json.dumps({"ts_ms": [CANARY]}).encode()), "'ts_ms'"),
    "a long partition value": (Table(("p",)), KafkaMessage(b'{"p":"%s"}' % (RAW * 20)), "partition column 'p'"),
    "no Avro": (Table(avro=LETTERS), KafkaMessage(RAW), "no schema id"),
    "a text for an id": (Table(avro=LETTERS), KafkaMessage(b"\1" + RAW), "schema"),
    "another Avro": (Table(avro=LETTERS), KafkaMessage(framed(1, b"\2a" + RAW)), "does not fit its Avro schema"),
    "an id in a header": (Table(avro=LETTERS), KafkaMessage(b"", raw_headers=HEADERS), "no schema id"),
    "another Protobuf": (Table(protobuf=protobuf()), KafkaMessage(framed(1, b"\0" + RAW)), "does not fit the message"),
    "a path": (Table(protobuf=protobuf()), KafkaMessage(framed(1, b"\2" + RAW)), "no message at the path"),
}


@pytest.mark.parametrize("kind", MESSAGES)
def test_of_a_message(kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table, bad, expected = MESSAGES[kind]
    (rejected,) = StagingStep(table, at_once=True, few=1).stage([bad], tmp_path / "staged").rejected
    told = told_of(rejected, caplog)
    assert_not_told(told)
    assert expected in told


def test_of_a_partition_value(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (rejected,) = stage(stager(spec("p")), batch({"p": f"{CANARY}\ud800"}), tmp_path / "staged").rejected
    told = told_of(rejected, caplog)
    assert_not_told(told)
    assert "partition column 'p' has a str that cannot become text" in told


@pytest.mark.parametrize("kind", ["integer", "double", "json", "avro"])
def test_of_a_key(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    settings = load(KAFKA_KEY_DESERIALIZER=kind, SCHEMA_REGISTRY_URL="http://registry" if kind == "avro" else "")
    formats = new_formats(settings, MemoryRegistry({}).find if kind == "avro" else None)
    refusal = read_message(
        Topic("sensors", value_deserializer=formats.value, key_deserializer=formats.key), KafkaMessage(b"{}", RAW)
    )
    assert isinstance(refusal, Refusal)
    told = told_of(refusal.rejected, caplog)
    assert_not_told(told)
    assert "its key does not deserialize" in told


def test_of_a_column_that_cannot_have_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    step = StagingStep(Table(types="a:bigint,s:struct<b:bigint>", metadata=("__timestamp",)), at_once=True)
    values = {"a": CANARY, "s": {"b": CANARY}, "_rescued_data": CANARY, "A": CANARY, "": CANARY}
    with caplog.at_level(logging.INFO):
        assert step.stage([KafkaMessage(json.dumps(values).encode())], tmp_path / "staged").rescued
    assert "column 'a': a value of type str in a bigint column" in caplog.text
    assert_not_told(caplog.text)


class Unprintable(Exception):  # noqa: N818
    def __repr__(self) -> str:
        raise ValueError(CANARY)

    __str__ = __repr__


def raising(error: Callable[[str], BaseException]) -> Callable[[StreamingDataFrame], StreamingDataFrame]:
    def fail(value: Any) -> Any:
        raise error(value["a"])

    return lambda sdf: sdf.apply(fail)


TRANSFORMS: Mapping[str, tuple[Callable[[StreamingDataFrame], StreamingDataFrame], str]] = {
    "an error": (raising(ValueError), "transform() raised ValueError at "),
    "a field that is missing": (raising(KeyError), "transform() raised KeyError at "),
    "an error that cannot be shown": (raising(lambda _: Unprintable()), "transform() raised Unprintable at "),
    "a text": (lambda sdf: sdf.apply(lambda value: value["a"]), "type str"),
    "a timestamp": (lambda sdf: sdf.set_timestamp(lambda value, *_: value["a"]), "set_timestamp() set a value of"),
    "headers": (lambda sdf: sdf.set_headers(lambda value, *_: [value["a"]]), "set_headers() set a value of type list"),
}


@pytest.mark.parametrize("kind", TRANSFORMS)
def test_of_what_transform_makes_of_it(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    transform, expected = TRANSFORMS[kind]
    topic = Topic("sensors", value_deserializer="json", key_deserializer="str")
    built, form = transform(stateless_dataframe()), {"values_are_json": True, "keys_are_text": True}
    made = Transformer(topic, built, UNBOUNDED, **form, clock=Clock())
    (refusal,) = made.run([KafkaMessage(JSON)], room=1, until=Clock()() + 1).refusals
    told = told_of(refusal.rejected, caplog)
    assert_not_told(told)
    assert expected in told


@pytest.mark.parametrize(
    "error", [ended(SystemExit(CANARY)), ended(BaseException(CANARY)), translated(ValueError(CANARY))]
)
def test_of_an_error_that_ends_the_process(error: Exception) -> None:
    assert_not_told(str(error))
