"""The lane for an edited ``transform()`` with a real Kafka and a real S3 server, killed and disturbed."""

import io
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from app.table.layout import dead_letter_root, is_data_file
from dev.broker import Broker
from dev.minio import LocalMinio
from tests.faults.proxy import FaultProxy, Reset, Rule, on
from tests.services.offsets import committed_offsets

REPO = Path(__file__).resolve().parents[2]
PARTITIONS = 2
PATIENCE = 240.0  # seconds; a start took 29 on a machine with a load of 20
_NOON = 1_704_067_200_000
KILLED, RESTART = -9, 75
ROOT = "data/readings"
DEATHS = ("before upload", "before the log's last write", "between log and commit")
Row = tuple[Any, ...]


class Site:
    """A topic, a group and a bucket, with the processes that work on them."""

    def __init__(self, kafka: Broker, minio: LocalMinio, folder: Path) -> None:
        self.kafka = kafka
        self.minio = minio
        self.folder = folder
        self.topic = f"readings-{uuid.uuid4().hex[:8]}"
        self.group = f"group-{uuid.uuid4().hex[:8]}"
        self.bucket = f"lane-{uuid.uuid4().hex[:8]}"
        self.produced = 0
        self.processes: list[subprocess.Popen[bytes]] = []
        kafka.create_topic(self.topic, PARTITIONS)
        minio.client().create_bucket(Bucket=self.bucket)

    def produce(self, count: int, value: Callable[[int], str] | None = None) -> None:
        """Produce records with the next numbers; a second of time lies between two of a partition."""
        first, self.produced = self.produced, self.produced + count
        made = value or (lambda n: json.dumps({"n": n, "ts_ms": _NOON + n, "room": f"room-{n % 7}"}))
        self.kafka.produce(
            self.topic,
            ((f"key-{n % PARTITIONS}", made(n), _NOON + 500 * n, n % PARTITIONS) for n in range(first, first + count)),
        )

    def start(self, transform: str, *, die: str = "", **variables: str) -> "Life":
        settings = {
            "input": self.topic,
            "KAFKA_BOOTSTRAP_SERVERS": self.kafka.bootstrap_servers,
            "CONSUMER_GROUP": self.group,
            "AUTO_OFFSET_RESET": "earliest",
            "COMMIT_INTERVAL": "0.5",
            "S3_BUCKET": self.bucket,
            "TABLE_NAME": "readings",
            "AWS_ENDPOINT_URL": self.minio.endpoint_url,
            "AWS_ACCESS_KEY_ID": self.minio.access_key,
            "AWS_SECRET_ACCESS_KEY": self.minio.secret_key,
            "AWS_REGION": self.minio.region,
            "METADATA_COLUMNS": "__partition,__offset",
            "MAX_BUFFER_MB": "8",
            "HTTP_PORT": "0",
            "LANE_TRANSFORM": transform,
            "LANE_DIE": die,
            "TMPDIR": str(self.folder),
            "PYTHONPATH": str(REPO),
            "PATH": os.environ["PATH"],
        }
        return Life(self, settings | variables)

    def rows(self) -> Counter[Row]:
        """The rows of the table, by what tells them apart."""
        found: Counter[Row] = Counter()
        for row in self._rows_under(f"{ROOT}/", lambda key: is_data_file(key, ROOT)):
            found[tuple(row.get(name) for name in ("n", "part", "start", "count", "__partition"))] += 1
        return found

    def dead_letters(self) -> Counter[int]:
        """The numbers of the records in the dead letter."""
        found = self._rows_under(f"{dead_letter_root(ROOT)}/", lambda key: key.endswith(".parquet"))
        return Counter(row["offset"] * PARTITIONS + row["partition"] for row in found)

    def committed(self) -> list[int]:
        tps = [TopicPartition(self.topic, number) for number in range(PARTITIONS)]
        return committed_offsets(self.kafka, self.group, tps)

    def _rows_under(self, prefix: str, is_wanted: Callable[[str], bool]) -> Iterator[dict[str, Any]]:
        client = self.minio.client()
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix):
            for item in page.get("Contents", []):
                if is_wanted(item["Key"]):
                    body = client.get_object(Bucket=self.bucket, Key=item["Key"])["Body"].read()
                    yield from pq.read_table(io.BytesIO(body)).to_pylist()


class Life:
    """One process of the connector."""

    def __init__(self, site: Site, variables: dict[str, str]) -> None:
        self._site = site
        self.log = site.folder / f"{uuid.uuid4().hex[:6]}.log"
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.framework_process"],
                cwd=site.folder,
                env=variables,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        site.processes.append(self.process)

    def wait_until(self, happened: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not happened():
            assert time.monotonic() < deadline, f"it did not happen:\n{self.tail()}"
            assert self.process.poll() is None, f"ended with {self.process.returncode}:\n{self.tail()}"
            time.sleep(0.1)

    def wait_until_committed(self) -> None:
        """Wait until the group has committed all that was produced."""
        wanted = [(self._site.produced + PARTITIONS - 1 - number) // PARTITIONS for number in range(PARTITIONS)]
        self.wait_until(lambda: self._site.committed() == wanted)

    def stop(self) -> int:
        self.process.terminate()
        return self.end()

    def end(self) -> int:
        """Wait for its end; returns its exit code."""
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it does not end:\n{self.tail()}") from None

    def tail(self) -> str:
        return self.log.read_text()[-4_000:]


@pytest.fixture
def site(kafka: Broker, s3_server: LocalMinio, tmp_path: Path) -> Iterator[Site]:
    made = Site(kafka, s3_server, tmp_path)
    yield made
    for process in made.processes:
        if process.poll() is None:
            process.kill()
            process.wait()


def wanted(transform: str, count: int) -> Counter[Row]:
    """The rows that this ``transform()`` makes of so many records."""
    if transform == "filtered":
        return Counter((n, None, None, None, n % PARTITIONS) for n in range(count) if n % 3)
    if transform == "expanded":
        return Counter((n, part, None, None, n % PARTITIONS) for n in range(count) for part in range(3))
    if transform == "failing":
        return Counter((n, None, None, None, n % PARTITIONS) for n in range(count) if n % 10 != 3)
    if transform == "windowed":  # a record of a key each second: a window closes with the next one
        starts = [(n, (_NOON + 500 * n) // 1_000 * 1_000) for n in range(count - PARTITIONS)]
        return Counter((None, None, start, 1, n % PARTITIONS) for n, start in starts)
    raise AssertionError(transform)


@pytest.mark.parametrize("transform", ["filtered", "expanded", "windowed", "failing"])
def test_every_row_is_there_once_after_deaths_at_each_step(site: Site, transform: str) -> None:
    for death in DEATHS:
        site.produce(400)
        life = site.start(transform, die=f"{death}:2")
        while life.process.poll() is None:  # a second batch comes for certain
            site.produce(20)
            time.sleep(0.3)
        assert life.process.returncode == KILLED, life.tail()
    life = site.start(transform)
    site.produce(100)
    life.wait_until_committed()
    assert life.stop() == 0, life.tail()
    found, expected = site.rows(), wanted(transform, site.produced)
    assert (expected - found, found - expected) == (Counter(), Counter())
    if transform == "failing":
        assert site.dead_letters() == Counter(n for n in range(site.produced) if n % 10 == 3)


def test_records_are_sent_on_by_group_by_and_written_once(site: Site) -> None:
    """A death may double what was sent on and not committed: see the guarantees."""
    for _ in range(2):
        life = site.start("grouped")
        site.produce(300)
        life.wait_until(lambda: sum(site.rows().values()) == site.produced)
        assert life.stop() == 0, life.tail()
    assert {(row[0], count) for row, count in site.rows().items()} == {(n, 1) for n in range(site.produced)}


def test_bad_records_alone_reach_the_dead_letter_and_come_no_second_time(site: Site) -> None:
    for number in (1, 2):
        life = site.start("filtered")
        site.produce(50, lambda _: "{")
        total = 50 * number
        life.wait_until(lambda: site.dead_letters().total() == total)  # noqa: B023 - it is called here
        assert life.stop() == 0, life.tail()
    assert site.dead_letters() == Counter(range(100))


def test_bad_records_between_good_ones_are_there_once_after_deaths(site: Site) -> None:
    def value(n: int) -> str:
        return "{" if n % 5 == 1 else json.dumps({"n": n, "ts_ms": _NOON + n})

    for death in DEATHS:
        life = site.start("expanded", die=f"{death}:2")
        while life.process.poll() is None:
            site.produce(40, value)
            time.sleep(0.3)
        assert life.process.returncode == KILLED, life.tail()
    life = site.start("expanded")
    site.produce(41, lambda n: json.dumps({"n": n, "ts_ms": _NOON + n}) if n % 5 != 1 else "{")
    site.produce(2, lambda n: json.dumps({"n": n, "ts_ms": _NOON + n}))
    life.wait_until_committed()
    assert life.stop() == 0, life.tail()
    bad = {n for n in range(site.produced - 2) if n % 5 == 1}
    assert site.dead_letters() == Counter(bad)
    expected = Counter(
        {(n, part, None, None, n % PARTITIONS): 1 for n in range(site.produced) if n not in bad for part in range(3)}
    )
    assert site.rows() == expected


def test_a_store_that_is_away_is_waited_for(site: Site) -> None:
    with FaultProxy(site.minio.endpoint_url) as proxy:
        life = site.start("expanded", AWS_ENDPOINT_URL=proxy.url, LANE_FLUSH="3")
        site.produce(200)
        life.wait_until_committed()
        proxy.add(Rule(on(), Reset()))
        site.produce(200)
        life.wait_until(lambda: "is read again" in life.log.read_text())
        proxy.clear()
        site.produce(200)
        life.wait_until_committed()
        assert life.stop() == 0, life.tail()
    assert site.rows() == wanted("expanded", site.produced)


def test_rows_are_there_once_while_members_come_and_go(site: Site) -> None:
    first = site.start("expanded")
    for _ in range(3):
        site.produce(200)
        second = site.start("expanded")
        for _ in range(8):
            site.produce(50)
            time.sleep(0.5)
        second.wait_until(lambda: "CONNECTED!" in second.log.read_text())  # noqa: B023 - of this round
        assert second.stop() == 0, second.tail()
    first.wait_until_committed()
    assert first.stop() == 0, first.tail()
    assert site.rows() == wanted("expanded", site.produced)


def test_a_member_that_was_frozen_loses_and_doubles_nothing(site: Site) -> None:
    """It ends with 75 if it had records that no flush had taken, and goes on else; both are fine."""
    frozen, other = site.start("expanded", COMMIT_INTERVAL="2"), site.start("expanded")
    site.produce(200)
    other.wait_until_committed()
    site.produce(100)
    time.sleep(0.5)
    frozen.process.send_signal(signal.SIGSTOP)
    site.produce(100)
    time.sleep(10.0)  # the session is over after 6 s
    frozen.process.send_signal(signal.SIGCONT)
    site.produce(100)
    other.wait_until_committed()
    frozen.process.terminate()
    assert frozen.end() in (0, RESTART), frozen.tail()
    other.wait_until_committed()
    assert other.stop() == 0, other.tail()
    assert site.rows() == wanted("expanded", site.produced)


def test_a_new_group_begins_at_the_end_although_its_client_begins_at_the_beginning(site: Site) -> None:
    site.produce(100)
    life = site.start("filtered", AUTO_OFFSET_RESET="latest")
    life.wait_until(lambda: site.committed() == [50, 50])
    site.produce(50)
    life.wait_until_committed()
    assert life.stop() == 0, life.tail()
    expected = Counter({row: 1 for row in wanted("filtered", 150) if row[0] >= 100})
    assert site.rows() == expected


def test_a_topic_that_is_recreated_is_read_from_its_beginning(site: Site) -> None:
    site.produce(100)
    life = site.start("expanded")
    life.wait_until_committed()
    assert life.stop() == 0, life.tail()
    admin = AdminClient({"bootstrap.servers": site.kafka.bootstrap_servers})
    admin.delete_topics([site.topic])[site.topic].result(30)
    while site.topic in admin.list_topics(timeout=10).topics:
        time.sleep(0.1)
    site.kafka.create_topic(site.topic, PARTITIONS)
    site.produce(200)  # the group's offsets, 50, are in the middle of them
    life = site.start("expanded")
    life.wait_until(lambda: site.committed() == [100, 100])
    assert life.stop() == 0, life.tail()
    assert site.rows() == wanted("expanded", site.produced)


def test_records_that_expire_while_it_runs_are_passed_over(site: Site) -> None:
    life = site.start("filtered")
    site.produce(100)
    life.wait_until_committed()
    life.process.send_signal(signal.SIGSTOP)
    site.produce(100)
    site.kafka.delete_records([TopicPartition(site.topic, number, 75) for number in range(PARTITIONS)])
    life.process.send_signal(signal.SIGCONT)
    life.wait_until_committed()
    assert life.stop() == 0, life.tail()
    left = {row: count for row, count in wanted("filtered", 200).items() if not 100 <= row[0] < 150}
    found = site.rows()
    assert set(left) <= set(found)  # the client may have fetched some of the others before
    assert max(found.values()) == 1
