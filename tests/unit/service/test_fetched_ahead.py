"""How many messages Kafka's client fetches before the connector asks for them: over the broker that librdkafka has."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

from confluent_kafka import Producer, TopicPartition
from quixstreams import Application

from app.commands.offline import OfflineBroker
from app.consumer.plain.client import new_client
from app.service.kafka import new_application
from app.service.lake import new_location
from app.service.stores import new_store
from dev.broker import QUIET
from tests.support.environment import load
from tests.support.waiting import wait_until

MESSAGES = 280  # of 16 kB: of a partition, that broker keeps 5 MB
TOGETHER = 20  # messages that the broker gives at once
REPORTS = 20
VALUE = b"{}"


def test_no_more_messages_are_fetched_ahead_than_memory_takes_with_their_headers(tmp_path: Path) -> None:
    broker = OfflineBroker()
    producer = Producer(
        {"bootstrap.servers": broker.address, "batch.num.messages": TOGETHER, "linger.ms": 1_000, **QUIET}
    )
    for _ in range(MESSAGES):
        producer.produce("sensors", VALUE, headers=[("trace", b"x" * 16_000)], partition=0)
    wait_until(lambda: producer.flush(1) == 0, "the messages in the topic")
    settings = load({"KAFKA_BOOTSTRAP_SERVERS": broker.address}, STORAGE_URL=tmp_path.as_uri(), input="sensors")
    application = new_application(Application, settings, new_location(settings, new_store(settings), None), tmp_path)
    fetched: list[int] = []

    def counted(text: str) -> None:
        of_topic: Any = json.loads(text)["topics"].get("sensors", {"partitions": {}})
        fetched.extend(each["fetchq_size"] // len(VALUE) for each in of_topic["partitions"].values())

    with closing(new_client(application.config, {"stats_cb": counted, "statistics.interval.ms": 50})) as client:
        client.assign([TopicPartition("sensors", 0, 0)])
        wait_until(lambda: client.poll(0.1) and len(fetched) > REPORTS, "reports of what is fetched ahead")
    assert 0 < max(fetched) < MESSAGES / 2
