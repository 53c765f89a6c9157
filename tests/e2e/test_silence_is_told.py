"""Keys that fall silent, told by the real process on a topic."""

import json
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from dev.broker import QUIET
from tests.e2e.scenario import Scenario
from tests.support.waiting import wait_until


@pytest.fixture
def events(scenario: Scenario) -> Iterator[Consumer]:
    """Reads the topic that is told of silent keys."""
    name = f"{scenario.topic}-timeouts"
    scenario.kafka.create_topic(name)
    settings = {"bootstrap.servers": scenario.kafka.bootstrap_servers, "group.id": "reader", **QUIET}
    with closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition(name, 0, 0)])
        yield consumer


def _next(events: Consumer) -> tuple[bytes, dict[str, Any]]:
    found: list[Message] = []
    wait_until(lambda: found.extend(events.consume(1, timeout=1)) or found, "an event")
    [message] = found
    assert not message.error()
    return message.key(), json.loads(message.value())


def test_an_event_for_each_silence_of_a_key(scenario: Scenario, events: Consumer) -> None:
    connector = scenario.connector(STREAM_TIMEOUT_MS="1500", STREAM_TIMEOUT_TOPIC=f"{scenario.topic}-timeouts")
    connector.wait_until_ready()
    for _ in range(2):
        produced_ms = time.time() * 1000
        scenario.produce([("sensor-a", '{"n": 1}', None, None)])
        key, event = _next(events)
        assert key == b"sensor-a"
        assert event == {"ts_ms": event["ts_ms"], "stream": "sensor-a", "event": "stream_timeout"}
        assert event["ts_ms"] >= produced_ms + 1500

    assert connector.stop() == 0
    scenario.kafka.produce(f"{scenario.topic}-timeouts", [("the next one", "{}", None, None)])
    assert _next(events) == (b"the next one", {})
    assert connector.log.count("Stream 'sensor-a' timed out (silence ") == 2
    assert not connector.complaints()
