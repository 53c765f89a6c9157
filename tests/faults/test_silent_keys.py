"""Keys that fall silent, on a real Kafka and on both lanes: a pause of the connector is no silence of its keys.

All of the connector is real but Spark, and the clock of the timers: each turn of the consumer's loop takes a second of
it, as long as the test lets time pass.
"""

import json
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaTopicPartition

from app.model import TopicPartition
from app.parts.stream_timeouts.tracker import TimeoutTracker
from dev.broker import QUIET
from dev.kafka import LocalKafka
from tests.fakes.clock import Clock
from tests.faults.conftest import same, stateless
from tests.faults.connector_thread import ConnectorThread, Place, Transform, current
from tests.support.waiting import wait_until

TIMEOUT = 6  # seconds


PLAIN, TRANSFORMING = (
    pytest.param(None, id="plain"),
    pytest.param(stateless, id="transforming", marks=pytest.mark.night),
)


class Flow:
    """The time of one connector's timers: a second with each turn of its loop, while some are left."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.left = 0

    def tick(self) -> None:
        if self.left:
            self.left -= 1
            self.clock.advance(1)


class Watched:
    """A place whose connectors watch their keys, and the topic where they tell of silent ones."""

    def __init__(self, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
        self.place = place
        self.topic = f"{place.topic}-timeouts"
        self._flows: dict[ConnectorThread, Flow] = {}
        place.kafka.create_topic(self.topic)
        monkeypatch.setattr("app.parts.stream_timeouts.timeouts.TimeoutTracker", self._new_silence)

    def _new_silence(self, **arguments: Any) -> TimeoutTracker:
        connector = current()
        flow = self._flows[connector] = Flow()
        connector.is_heard = arguments["is_heard"]
        if connector.transform is same:
            connector.in_tick = flow.tick
        else:
            connector.in_turn = flow.tick
        return TimeoutTracker(**arguments, clock=flow.clock)

    def connector(self, lane: Transform | None, **variables: Any) -> ConnectorThread:
        settings = {"STREAM_TIMEOUT_MS": str(TIMEOUT * 1000), "STREAM_TIMEOUT_TOPIC": self.topic}
        return self.place.connector(settings, transform=lane, **variables)

    def hear(self, key: str, by: ConnectorThread, partition: int = 0) -> None:
        """Produce a record with this key, and wait until it is in the lake."""
        self.place.kafka.produce(self.place.topic, [(key, '{"n": 1}', None, partition)])
        self.place.produced += 1
        by.wait_until(lambda: sum(max(0, offset) for offset in self.place.committed()) == self.place.produced)

    def listen(self, seconds: int, *connectors: ConnectorThread) -> None:
        flows = [self._flows[connector] for connector in connectors]
        for flow in flows:
            flow.left = seconds
        for connector in connectors:
            connector.wait_until(lambda: not any(flow.left for flow in flows), "turns of the loop")

    def told(self, count: int = 0) -> list[bytes]:
        """The keys of all events so far, once there are as many as that."""
        settings = {"bootstrap.servers": self.place.kafka.bootstrap_servers, "group.id": "reader", **QUIET}
        tp = KafkaTopicPartition(self.topic, 0, 0)
        ends: list[int] = []
        found: list[Message] = []
        with closing(Consumer(settings)) as consumer:

            def look() -> bool:
                """A broker that has just started takes a moment to lead its partitions again."""
                try:
                    ends.append(int(consumer.get_watermark_offsets(tp, timeout=30)[1]))
                except KafkaException as error:
                    if error.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION:
                        raise
                return bool(ends) and ends[-1] >= count

            def read() -> bool:
                found.extend(consumer.consume(ends[-1] - len(found), timeout=1))
                return len(found) == ends[-1]

            wait_until(look, f"{count} events")
            consumer.assign([tp])
            wait_until(read, "all events")
        assert {json.loads(message.value() or b"")["event"] for message in found} <= {"stream_timeout"}
        return [message.key() or b"" for message in found]


@pytest.fixture
def watched(place: Place, monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(place, monkeypatch)


def _has_one_partition(connector: ConnectorThread) -> bool:
    return len(connector.partitions) == 1


@pytest.mark.parametrize("lane", [PLAIN, TRANSFORMING, pytest.param(same, id="framework", marks=pytest.mark.night)])
@pytest.mark.parametrize("place", [2], indirect=True)
def test_a_partition_that_waits_for_its_journal_has_no_silent_keys(watched: Watched, lane: Transform | None) -> None:
    """It was read before it was given away: nothing of that is known, and nothing is told."""
    first = watched.connector(lane)
    first.wait_until_consuming(0, 1)
    watched.hear("a", by=first)
    watched.hear("b", by=first, partition=1)
    watched.listen(2, first)

    second = watched.connector(lane)
    for connector in (first, second):
        connector.wait_until(partial(_has_one_partition, connector), "one partition")
    watched.listen(3 * TIMEOUT, first, second)
    assert watched.told() == [], "the keys of partitions that moved are forgotten"

    watched.hear("a", by=first)
    watched.hear("b", by=second, partition=1)
    watched.listen(TIMEOUT + 2, first, second)
    assert sorted(watched.told(2)) == [b"a", b"b"]


@pytest.fixture
def mortal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    """With a Kafka of the test's own."""
    with LocalKafka() as kafka, Place(kafka, tmp_path, monkeypatch) as place:
        yield Watched(place, monkeypatch)


@pytest.mark.alone  # beside others, the client's statistics once did not show for two minutes that Kafka is back
@pytest.mark.parametrize("lane", [PLAIN, TRANSFORMING, pytest.param(same, id="framework")])
def test_a_kafka_that_is_away_makes_no_key_silent(mortal: Watched, lane: Transform | None) -> None:
    kafka = mortal.place.kafka
    assert isinstance(kafka, LocalKafka)
    # Longer than the outage: a member that is thought dead loses its partitions, and thereby all keys.
    session = {"session.timeout.ms": 60_000, "max.poll.interval.ms": 120_000}
    connector = mortal.connector(lane, kafka={"statistics.interval.ms": 500, **session})
    connector.wait_until_consuming()
    mortal.hear("a", by=connector)

    tp = TopicPartition(mortal.place.topic, 0)
    kafka.stop()
    connector.wait_until(lambda: not connector.is_heard(tp), "the client to notice")
    mortal.listen(3 * TIMEOUT, connector)
    kafka.start()
    assert mortal.told() == []

    connector.wait_until(lambda: connector.is_heard(tp), "the client to find the broker, without a message")
    mortal.listen(TIMEOUT + 2, connector)
    assert mortal.told(1) == [b"a"]
