"""Who is told of a silent key, by the settings, with a Kafka that is played; the real one is in ``tests/faults``."""

import json
import logging
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from confluent_kafka import KafkaError, KafkaException
from quixstreams.kafka import ConnectionConfig

from app.consumer.sink_observer import NOBODY
from app.errors import ConfigError
from app.logs import OnceAMinute
from app.parts.stream_timeouts.timeouts import EventTopic, StreamTimeouts, notify
from app.parts.stream_timeouts.tracker import RawKeys, TimeoutTracker
from app.service.formats import new_deserializer
from tests.support.environment import load

APPLICATION: Any = SimpleNamespace(config=SimpleNamespace(broker_address="", producer_extra_config={}))
OF_KEYS = new_deserializer("str")
ON = {"STREAM_TIMEOUT_MS": "60000"}
Answer = Callable[[KafkaError | None, object], None]


class Producer:
    def __init__(self, broker: ConnectionConfig, extra_config: dict[str, Any]) -> None:
        self.config = extra_config
        self.sent: list[tuple[str, str, bytes]] = []
        self.waiting: list[Answer] = []
        self.refusal: Exception | None = None
        self.error: KafkaError | None = None
        self.polls = 0
        self.answers = True

    def produce(self, topic: str, value: str, key: bytes, buffer_error_max_tries: int, on_delivery: Answer) -> None:
        assert buffer_error_max_tries == 0, "it would wait for room in the queue"
        if self.refusal:
            raise self.refusal
        self.sent.append((topic, value, key))
        self.waiting.append(on_delivery)

    def poll(self, timeout: float) -> None:
        assert timeout == 0
        self.polls += 1
        self._answer()

    def flush(self, timeout: float) -> int:
        assert 0 < timeout <= 2, "a stop has 27 s in all, and the last flush of the lake 25 of them"
        if self.answers:
            self._answer()
        return len(self.waiting)

    def _answer(self) -> None:
        waiting, self.waiting = self.waiting, []
        for answer in waiting:
            answer(self.error, None)


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> EventTopic:
    monkeypatch.setattr("app.parts.stream_timeouts.timeouts.Producer", Producer)
    return EventTopic(ConnectionConfig(bootstrap_servers="kafka:9092"), {"client.id": "x"}, "acme-timeouts")


@pytest.fixture
def producer(topic: EventTopic) -> Producer:
    made = topic._producer
    assert isinstance(made, Producer)
    assert made.config["client.id"] == "x"
    assert (made.config["queue.buffering.max.messages"], made.config["queue.buffering.max.kbytes"]) == (100_000, 16_384)
    return made


def test_an_event_has_the_time_the_key_as_text_and_the_raw_key(topic: EventTopic, producer: Producer) -> None:
    before = int(time.time() * 1000)
    topic.send("Zürich".encode())
    topic.send(b"\xff\x00")

    assert [(name, key) for name, _, key in producer.sent] == [
        ("acme-timeouts", "Zürich".encode()),
        ("acme-timeouts", b"\xff\x00"),
    ]
    values = [json.loads(value) for _, value, _ in producer.sent]
    assert [set(value) for value in values] == [{"ts_ms", "stream", "event"}] * 2
    assert [value["stream"] for value in values] == ["Zürich", "\N{REPLACEMENT CHARACTER}\x00"]
    assert {value["event"] for value in values} == {"stream_timeout"}
    assert all(before <= value["ts_ms"] <= time.time() * 1000 for value in values)


@pytest.mark.parametrize(
    "refusal", [BufferError("Local: Queue full"), KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))]
)
def test_what_cannot_be_sent_is_dropped_with_one_warning_a_minute(
    refusal: Exception, topic: EventTopic, producer: Producer, caplog: pytest.LogCaptureFixture
) -> None:
    producer.refusal = refusal
    for _ in range(1_000):
        topic.send(b"a")
    [warning] = caplog.messages
    assert "acme-timeouts" in warning

    producer.refusal = None
    topic.send(b"b")
    topic.close()
    assert caplog.messages[1:] == ["stream timeouts: 1,000 events did not reach topic acme-timeouts"]


def test_what_kafka_refuses_is_told_once_it_answers(
    topic: EventTopic, producer: Producer, caplog: pytest.LogCaptureFixture
) -> None:
    topic.turn()
    assert producer.polls == 0
    producer.error = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    topic.send(b"a")
    topic.turn()
    topic.turn()
    assert producer.polls == 1, "answers are asked for only while some are to come"
    [message] = caplog.messages
    assert producer.error.str() in message


def test_a_stop_does_not_wait_for_a_kafka_that_does_not_answer(
    topic: EventTopic, producer: Producer, caplog: pytest.LogCaptureFixture
) -> None:
    producer.answers = False
    topic.send(b"a")
    topic.send(b"b")
    topic.close()
    assert caplog.messages == ["stream timeouts: 2 events did not reach topic acme-timeouts"]


def test_a_function_that_fails_is_told_once_a_minute_without_the_key_and_spoils_nothing(
    topic: EventTopic, producer: Producer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    told: list[bytes] = []

    def fail(key: bytes) -> None:
        told.append(key)
        raise ValueError(f"no such device: {key!r}")

    failures = OnceAMinute()
    for _ in range(3):
        notify(topic, fail, failures, b"sensor-a\xff")
    topic.turn()
    topic.close()
    assert told == [b"sensor-a\xff"] * 3
    assert len(producer.sent) == 3
    [message] = caplog.messages
    assert "sensor-a" not in message
    assert "ValueError at " in message
    assert "test_events.py:" in message


# --- from the settings on -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("timeout_ms", ["", "0", "-1"])
def test_off_observes_nothing(timeout_ms: str) -> None:
    threads = threading.active_count()
    settings = load(STREAM_TIMEOUT_MS=timeout_ms)
    timeouts = StreamTimeouts(settings, None, OF_KEYS, ExitStack())
    assert timeouts.new_observer(APPLICATION, [], lambda _: True) is NOBODY
    assert timeouts.key_deserializer is OF_KEYS
    assert threading.active_count() == threads


@pytest.mark.parametrize(("topic", "function"), [({"STREAM_TIMEOUT_TOPIC": "timeouts"}, None), ({}, print)])
def test_on_with_a_topic_or_a_function_alone(
    topic: dict[str, str], function: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = "app.parts.stream_timeouts.timeouts"
    monkeypatch.setattr(f"{module}.open_topic", lambda *_, **__: SimpleNamespace(name="timeouts"))
    monkeypatch.setattr(f"{module}.EventTopic", Mock())
    timeouts = StreamTimeouts(load(**topic, **ON), function, OF_KEYS, ExitStack())
    assert isinstance(timeouts.new_observer(APPLICATION, [], lambda _: True), TimeoutTracker)
    assert isinstance(timeouts.key_deserializer, RawKeys)


def test_on_without_anybody_to_tell_is_an_error() -> None:
    with pytest.raises(ConfigError, match="Set STREAM_TIMEOUT_TOPIC, or define on_stream_timeout"):
        StreamTimeouts(load(**ON), None, OF_KEYS, ExitStack())


def test_a_function_that_is_never_called_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    StreamTimeouts(load(), print, OF_KEYS, ExitStack())
    [message] = caplog.messages
    assert "STREAM_TIMEOUT_MS is not set" in message
