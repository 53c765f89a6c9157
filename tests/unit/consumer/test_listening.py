"""Whether a partition can be heard, with a consumer that is played."""

import json
from typing import Any

import pytest
from confluent_kafka import KafkaError
from quixstreams.kafka import Consumer

from app.consumer.assignment import Assignments
from app.consumer.paused_partitions import PausedPartitions
from app.model import TopicPartition
from tests.fakes.instant_claims import InstantClaims

TP, OTHER = TopicPartition("sensors", 0), TopicPartition("sensors", 1)


class Place:
    """The consumer of quixstreams, never connected, and what its client would tell it."""

    def __init__(self) -> None:
        consumer: Any = Consumer("127.0.0.1:9", "group", "latest")
        self.consumer = consumer
        self.consumer.backpressured_tps = set()
        self.consumer.pause = lambda _: None
        claims = InstantClaims()
        self.paused = PausedPartitions(self.consumer, claims, Assignments())
        self.listening = self.paused.is_heard

    def lose_broker(self) -> None:
        self.consumer._error_cb(KafkaError(KafkaError._ALL_BROKERS_DOWN))

    def statistics(self, state: str) -> None:
        self.consumer._stats_cb(json.dumps({"brokers": {"kafka:9092/1": {"nodeid": 1, "state": state}}}))


@pytest.fixture
def place() -> Place:
    return Place()


def test_a_claimed_partition_is_heard_and_one_that_waits_is_not(place: Place) -> None:
    place.paused.begin([OTHER], "token")
    assert place.listening(TP)
    assert not place.listening(OTHER)


def test_nothing_is_heard_during_back_pressure(place: Place) -> None:
    place.consumer.backpressured_tps = {TP}
    assert not place.listening(TP)
    assert not place.listening(OTHER)


def test_nothing_is_heard_from_a_broker_that_is_away_until_a_message_comes(place: Place) -> None:
    place.lose_broker()
    assert not place.listening(TP)
    place.consumer._broker_available()  # what the loop calls with each message
    assert place.listening(TP)


def test_a_broker_that_is_back_is_noticed_without_messages(place: Place) -> None:
    place.statistics("UP")
    place.lose_broker()
    assert not place.listening(TP), "the statistics are of the time before"
    place.statistics("DOWN")
    assert not place.listening(TP)
    place.statistics("UP")
    assert place.listening(TP)


def test_a_second_outage_is_noticed_as_well(place: Place) -> None:
    for _ in range(2):
        place.lose_broker()
        assert not place.listening(TP)
        place.statistics("UP")
        assert place.listening(TP)
