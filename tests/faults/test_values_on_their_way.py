"""Values from a real Kafka to the table, or to the dead letter and back: none is another one than it was."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from quixstreams.dataframe import StreamingDataFrame

from dev.broker import QUIET
from tests.faults.connector_thread import Place, Transform
from tests.support.waiting import PATIENCE, wait_until

MAIN = Path(__file__).parents[2] / "main.py"
LAST_YEAR = 1_735_689_600_000
Headers = list[tuple[str, bytes | None]]
Sent = tuple[bytes | None, bytes | None, Headers, int]


def send(place: Place, *records: Sent) -> None:
    producer = Producer({"bootstrap.servers": place.kafka.bootstrap_servers, **QUIET})
    for key, value, headers, timestamp in records:
        producer.produce(place.topic, value, key, partition=0, timestamp=timestamp, headers=headers)
    assert producer.flush(PATIENCE) == 0


def received(place: Place) -> list[Sent]:
    consumer = Consumer({"bootstrap.servers": place.kafka.bootstrap_servers, "group.id": "looks", **QUIET})
    with closing(consumer):
        consumer.assign([TopicPartition(place.topic, 0, 0)])
        count = place.kafka.count(place.topic)
        messages: list[Message] = []

        def has_all() -> bool:
            messages.extend(consumer.consume(count - len(messages), timeout=1))
            return len(messages) == count

        wait_until(has_all, "all messages of the topic")
    return [(one.key(), one.value(), one.headers() or [], one.timestamp()[1]) for one in messages]


def replay(place: Place, *options: str) -> None:
    """Bring the dead letter back, as a user does."""
    variables = {
        "PATH": os.environ["PATH"],
        "KAFKA_BOOTSTRAP_SERVERS": place.kafka.bootstrap_servers,
        "STORAGE_URL": place.store_folder.as_uri(),
        "TABLE_NAME": "readings",
        "input": place.topic,
    }
    subprocess.run([sys.executable, str(MAIN), "replay", *options], env=variables, timeout=PATIENCE, check=True)


def rows(place: Place) -> Iterator[dict[str, Any]]:
    for path in place.files():
        yield from pq.ParquetFile(path).read().to_pylist()


def _fails_at_numbers(sdf: StreamingDataFrame) -> StreamingDataFrame:
    def check(value: Any) -> Any:
        if isinstance(value, dict):
            value["seen"] = value.pop("a", None)  # in place: what the framework still holds is not the message
            if value.get("fail"):
                raise ValueError("it is to fail")
        return value

    sdf = sdf.apply(check)
    return sdf.set_headers(lambda *_: [("new", b"header")]).set_timestamp(lambda *_: 7)


WAYS: dict[str, tuple[dict[str, str], Transform | None]] = {
    "many at once": ({}, None),
    "one by one": ({"KAFKA_KEY_DESERIALIZER": "json"}, None),
    "through transform()": ({"KAFKA_KEY_DESERIALIZER": "bytes"}, _fails_at_numbers),
}


@pytest.mark.parametrize(
    "way", ["many at once", pytest.param("one by one", marks=pytest.mark.night), "through transform()"]
)
def test_bad_records_come_back_byte_by_byte(place: Place, way: str) -> None:
    variables, transform = WAYS[way]
    headers: Headers = [("h", None), ("h", b""), ("trace", b"\x00\xff")]
    bad: list[Sent] = [
        (b"1", b"null", [], LAST_YEAR),
        (b"1", None, headers, LAST_YEAR),
        (b"1e2", b'"text"', headers, LAST_YEAR),
        (b"null", b" [1e2, 1.50, -0]\n", [], LAST_YEAR),
        (None, b'{"ts_ms" : "soon", "a":1e2, "a":18446744073709551616}', headers, LAST_YEAR + 1),
        (b'"k"', b'{"ts_ms":"soon","fail":true,"a":1.10}', headers, LAST_YEAR + 2),
        (None, b'{"broken', [], LAST_YEAR),
        (b"", b"", [], LAST_YEAR) if way == "many at once" else (b"0", b"", [], LAST_YEAR),
    ]
    good: Sent = (b"1", b'{"ts_ms":1735689600000,"a":1}', [], LAST_YEAR)
    send(place, good, *bad, good)
    connector = place.connector(variables, transform=transform, HIVE_COLUMNS="year")
    place.finish(connector, len(bad) + 2)

    replay(place)

    found = received(place)[len(bad) + 2 :]
    assert [headers.pop() for _, _, headers, _ in found] == [
        ("quix-replayed-from", f"{place.topic}/0/{offset}".encode()) for offset in range(1, len(bad) + 1)
    ]
    assert found == bad
    assert len(list(rows(place))) == 2
