"""Kafka's client of the plain lane: its properties, and whether Kafka is there."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError
from quixstreams import Application

from app.consumer.plain.client import BrokerPresence, new_client
from app.kafka.connection import KafkaConnection

EXPIRED = "ssl://b:1/bootstrap: SSL handshake failed: error:0A000415:SSL routines::sslv3 alert certificate expired"


def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    monkeypatch.setattr("app.consumer.plain.client.Consumer", properties.update)
    application = Application(
        KafkaConnection.to("broker:9092", {"sasl.password": "secret", "session.timeout.ms": 7}),
        consumer_group="readers",
        auto_offset_reset="error",
        consumer_extra_config={"session.timeout.ms": 1, "client.id": "me"},
        state_dir=tmp_path,
        loglevel=None,
    )
    new_client(application.config, BrokerPresence().properties)
    return properties


def test_it_has_the_properties_of_the_application_and_commits_nothing_by_itself(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = made(monkeypatch, tmp_path)
    assert found["bootstrap.servers"] == "broker:9092"
    assert found["group.id"] == "readers"
    assert found["client.id"] == "me"
    assert (found["sasl.password"], found["session.timeout.ms"]) == ("secret", 7), "those of the connection come last"
    assert (found["enable.auto.commit"], found["auto.offset.reset"]) == (False, "error")
    assert found["partition.assignment.strategy"] == "range", "all partitions move together"


def test_kafka_is_there_until_all_brokers_are_away_and_again_with_a_message() -> None:
    presence = BrokerPresence()
    presence.failed(KafkaError(KafkaError._TRANSPORT))
    assert presence.is_there
    presence.failed(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    assert not presence.is_there
    presence.heard()
    assert presence.is_there


@pytest.mark.parametrize(("state", "is_there"), [("UP", True), ("DOWN", False)])
def test_without_messages_the_statistics_say_that_kafka_is_back(state: str, *, is_there: bool) -> None:
    presence = BrokerPresence()
    presence.failed(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    presence.counted(json.dumps({"brokers": {"one": {"state": "DOWN"}, "two": {"state": state}}}))
    assert presence.is_there == is_there


def test_a_refused_login_is_told_in_one_line_and_no_outage(caplog: pytest.LogCaptureFixture) -> None:
    presence = BrokerPresence()
    with caplog.at_level(logging.ERROR):
        presence.failed(KafkaError(KafkaError._TRANSPORT, EXPIRED + "\n"))

    assert presence.is_there
    [line] = caplog.messages
    assert line.startswith(f"logging in to Kafka: {EXPIRED}. The brokers require a client certificate")
    assert "No record is lost" in line
    assert "\n" not in line
