"""How many messages Kafka's client fetches before the connector asks for them: over the broker that librdkafka has."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from quixstreams import Application

from app.consumer.plain.client import new_client
from app.parts.try_out.offline import OfflineBroker
from app.service.kafka_client import new_application
from app.service.lake import new_location, new_store
from dev.broker import QUIET
from tests.support.environment import load
from tests.support.waiting import wait_until

REPORTS = 20


def most_fetched(
    folder: Path,
    value: bytes,
    messages: int,
    *,
    together: int,
    partitions: int = 1,
    header: bytes = b"",
    **variables: str,
) -> int:
    """The most messages that waited in the client; the broker has so many in each partition, and gives some at once."""
    broker = OfflineBroker()
    batches = {"batch.num.messages": together, "linger.ms": 1_000}
    producer = Producer({"bootstrap.servers": broker.address, **batches, **QUIET})
    for partition in range(partitions):
        for _ in range(messages):
            producer.produce("sensors", value, headers=[("trace", header)], partition=partition)
    wait_until(lambda: producer.flush(1) == 0, "the messages in the topic")
    settings = load(
        {"KAFKA_BOOTSTRAP_SERVERS": broker.address, **variables}, STORAGE_URL=folder.as_uri(), input="sensors"
    )
    application = new_application(Application, settings, new_location(settings, new_store(settings), None), folder)
    fetched: list[int] = []

    def counted(text: str) -> None:
        of_topic: Any = json.loads(text)["topics"].get("sensors", {"partitions": {}})
        sizes = [each["fetchq_size"] // len(value) for each in of_topic["partitions"].values()]
        fetched.extend(sizes if fetched or any(sizes) else ())  # a busy machine reports before the first answer

    with closing(new_client(application.config, {"stats_cb": counted, "statistics.interval.ms": 50})) as client:
        client.assign([TopicPartition("sensors", partition, 0) for partition in range(partitions)])
        wait_until(lambda: client.poll(0.1) and len(fetched) > REPORTS, "reports of what is fetched ahead")
    return max(fetched)


def test_no_more_messages_are_fetched_ahead_than_memory_takes_with_their_headers(tmp_path: Path) -> None:
    """Of a partition, this broker keeps 5 MB."""
    assert 0 < most_fetched(tmp_path, b"{}", 280, together=20, header=b"x" * 16_000) < 280 / 2


@pytest.mark.parametrize("properties", ["", '{"message.max.bytes": 600000}'])
def test_all_partitions_share_what_a_broker_gives_at_once(tmp_path: Path, properties: str) -> None:
    """A compressed answer may become a thousand times as large, in all partitions at once."""
    fetched = most_fetched(tmp_path, b"x" * 2_000, 200, together=200, partitions=4, KAFKA_CLIENT_CONFIG=properties)
    assert 0 < fetched <= 2 * 200
