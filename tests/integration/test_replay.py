"""Records of the dead letter on their way back to a real Kafka, run as a user runs it."""

import os
import subprocess
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Message
from confluent_kafka.admin import AdminClient, NewTopic

from app.bad_records import dead_letter
from app.model import Rejected, TopicPartition
from app.reason_texts import Reason
from dev.broker import ADMIN_TIMEOUT, Broker
from tests.services.main_process import run_main
from tests.support.waiting import wait_until

LAST_YEAR = 1_735_689_600_000


@pytest.fixture
def topic(kafka: Broker) -> str:
    """It takes larger records than clients send by default."""
    name = f"readings-{uuid.uuid4()}"
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    limits = {"max.message.bytes": "5000000", "retention.ms": "-1"}
    admin.create_topics([NewTopic(name, 2, 1, config=limits)])[name].result(ADMIN_TIMEOUT)
    return name


def write_letter(lake: Path, records: Sequence[Rejected]) -> Path:
    folder = lake / "data/_dead_letter/t"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"data_{records[0].tp.topic}_{records[0].offset:019d}.parquet"
    dead_letter.write(records, path)
    return path


def rejected(topic: str, offset: int, **fields: Any) -> Rejected:
    known: dict[str, Any] = {
        "key": b"k",
        "value": b"v",
        "timestamp": LAST_YEAR,
        "headers": None,
        "reason": Reason("no JSON"),
    }
    return Rejected(tp=TopicPartition(topic, 1), offset=offset, **{**known, **fields})


def replay(kafka: Broker, lake: Path, topic: str, *options: str) -> "subprocess.CompletedProcess[str]":
    environment = {
        "PATH": os.environ["PATH"],
        "KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers,
        "STORAGE_URL": f"file://{lake}",
        "TABLE_NAME": "t",
        "input": topic,
    }
    return run_main("replay", *options, environment=environment)


def consume(kafka: Broker, topic: str) -> list[Message]:
    count = kafka.count(topic)
    group = {"group.id": f"test-{uuid.uuid4()}", "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, **group})
    consumer.subscribe([topic])
    messages: list[Message] = []

    def has_all() -> bool:
        messages.extend(consumer.consume(count, 1.0) if count else [])
        return len(messages) >= count

    try:
        wait_until(has_all, "all records", pause=0)
    finally:
        consumer.close()
    return messages


def test_records_come_back_as_they_were_where_they_were(kafka: Broker, tmp_path: Path, topic: str) -> None:
    headers = [("trace", b"\x00\xff"), ("none", None), ("trace", b"")]
    large = os.urandom(3_000_000)
    path = write_letter(
        tmp_path,
        [
            rejected(topic, 5, key=b"\xff\x00", value=b"{broken", headers=headers),
            rejected(topic, 6, key=None, value=None),
            rejected(topic, 7, key="Köln", value={"at": LAST_YEAR, "s": "ü"}, timestamp=LAST_YEAR + 1),
            rejected(topic, 8, key=b"", value=b"", timestamp=-5),
            rejected(topic, 9, key=b"null", value=b"null", timestamp=0),
            rejected(topic, 10, key=b"\x01" + bytes(16), value=b"\x00\x00\x00\x00\x07\x02\xff"),  # of a schema registry
            rejected(topic, 11, value=large),
        ],
    )

    ended = replay(kafka, tmp_path, topic)

    assert (ended.returncode, ended.stdout) == (0, "7 records sent; 0 files deleted, 1 file kept\n"), ended.stderr
    messages = consume(kafka, topic)
    assert [(m.partition(), m.key(), m.value()) for m in messages] == [
        (1, b"\xff\x00", b"{broken"),
        (1, None, None),
        (1, "Köln".encode(), '{"at":1735689600000,"s":"ü"}'.encode()),
        (1, b"", b""),
        (1, b"null", b"null"),
        (1, b"\x01" + bytes(16), b"\x00\x00\x00\x00\x07\x02\xff"),
        (1, b"k", large),
    ]
    # Kafka's client takes the timestamp 0 for none: one millisecond later is nearer than now.
    assert [m.timestamp()[1] for m in messages] == [LAST_YEAR, LAST_YEAR, LAST_YEAR + 1, -5, 1, LAST_YEAR, LAST_YEAR]
    origins = [("quix-replayed-from", f"{topic}/1/{offset}".encode()) for offset in range(5, 12)]
    assert [m.headers() for m in messages] == [[*headers, origins[0]], *([origin] for origin in origins[1:])]
    assert path.exists()


@pytest.mark.night
def test_files_are_deleted_whose_records_are_all_sent(kafka: Broker, tmp_path: Path, topic: str) -> None:
    gone = f"gone-{topic}"
    all_sent = write_letter(tmp_path, [rejected(gone, 1), rejected(gone, 2)])
    partly_selected = write_letter(tmp_path, [rejected(gone, 11), rejected(gone, 12, reason=Reason("a null value"))])
    too_big = write_letter(tmp_path, [rejected(gone, 21, value=b"beginning", value_size=400_000_000)])

    ended = replay(kafka, tmp_path, "elsewhere", "--to", topic, "--reason", "JSON", "--delete")

    sent, left_out = ended.stdout.splitlines()
    assert (ended.returncode, sent) == (0, "3 records sent; 1 file deleted, 2 files kept"), ended.stderr
    assert left_out.startswith("skipped: 1 record too large to be kept completely")
    assert [path.exists() for path in (all_sent, partly_selected, too_big)] == [False, True, True]
    origins = [m.headers()[0][1].decode() for m in consume(kafka, topic)]
    assert sorted(origins) == sorted(f"{gone}/1/{offset}" for offset in (1, 2, 11))
