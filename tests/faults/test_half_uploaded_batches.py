"""Batches whose owner is gone amid their upload, seen from outside: real processes, Kafka, and MinIO behind a proxy.

A reader counts the rows of the table's folder all the while, as an engine does that knows no catalog.
"""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from threading import Event, Thread

import pyarrow.parquet as pq
import pytest
from confluent_kafka import TopicPartition

from app.table.layout import is_data_file
from dev.broker import Broker
from tests.e2e.connector import ConnectorProcess
from tests.e2e.scenario import Scenario
from tests.faults.proxy import FaultProxy, Reset, Rule, from_on, on
from tests.faults.site import Site
from tests.services.leave_group import leave_group
from tests.support.waiting import wait_until

RECORDS = 4_000
FOLDERS = 20
PARTITIONS = 4
DATA = "/p="  # of a data file's key
SETTINGS = {"HIVE_COLUMNS": "p", "BATCH_SIZE": str(RECORDS), "COMMIT_INTERVAL": "2", "MAX_WRITE_WORKERS": "4"}


@dataclass
class Table:
    """The table's folder as a reader sees it that takes every file in it."""

    site: Site
    topic: str
    _rows: dict[str, list[int]] = field(default_factory=dict)  # of a version of a file

    @property
    def rows(self) -> Counter[int]:
        """How often each record's number is there."""
        client, bucket, found = self.site.client, self.site.bucket, Counter[int]()
        for item in client.list_objects_v2(Bucket=bucket, Prefix=f"data/{self.topic}/").get("Contents", []):
            if is_data_file(item["Key"], f"data/{self.topic}"):
                version = item["Key"] + item["ETag"]
                if version not in self._rows:
                    body = client.get_object(Bucket=bucket, Key=item["Key"])["Body"].read()
                    self._rows[version] = pq.read_table(BytesIO(body), columns=["n"]).column("n").to_pylist()
                found.update(self._rows[version])
        return found


class Reader:
    """Reads the table again and again; ``doubled`` has how many rows were there twice at each look."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._stop = Event()
        self._thread = Thread(target=self._run)
        self.doubled: list[int] = []

    def __enter__(self) -> "Reader":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0.2):
            try:
                self.doubled.append(sum(count - 1 for count in self._table.rows.values()))
            except self._table.site.client.exceptions.NoSuchKey:
                continue  # deleted since it was listed


@dataclass
class Place:
    scenario: Scenario
    to_store: FaultProxy
    settings: dict[str, str]
    table: Table

    def produce(self) -> None:
        self.scenario.produce(
            (None, json.dumps({"n": n, "p": f"{n % FOLDERS:02d}"}), None, n % PARTITIONS) for n in range(RECORDS)
        )

    def member(self) -> ConnectorProcess:
        return self.scenario.connector(self.settings)

    def expel_all(self) -> None:
        """Let Kafka take all members for dead."""
        leave_group(self.scenario.kafka.bootstrap_servers, self.scenario.group)

    def expire(self, *records: tuple[int, int]) -> None:
        """Delete the records before these offsets, given by partition, as retention does."""
        self.scenario.kafka.delete_records([TopicPartition(self.scenario.topic, *each) for each in records])


@pytest.fixture
def place(site: Site, kafka: Broker, tmp_path: Path) -> Iterator[Place]:
    with closing(Scenario(kafka, tmp_path, PARTITIONS)) as scenario:
        yield Place(scenario, site.to_store, site.settings | SETTINGS, Table(site, scenario.topic))
        site.to_store.clear()


def wait_for_rows(place: Place, count: int) -> None:
    wait_until(lambda: place.table.rows.total() >= count, f"{count:,} rows", pause=0.05)


def die_half_uploaded(place: Place) -> None:
    """Kill a member once three files of its first batch are stored."""
    rest = place.to_store.add(Rule(on("PUT", DATA), Reset(), from_on(4)))
    with place.member() as member:
        wait_until(lambda: rest.matched >= 7, "uploads")
        member.kill()
    place.expel_all()
    place.to_store.clear()


def test_a_record_that_expired_costs_no_other_row(place: Place) -> None:
    place.produce()
    die_half_uploaded(place)
    place.expire((0, 1))
    with Reader(place.table) as reader, place.member() as heir:
        wait_for_rows(place, RECORDS - 1)
        assert heir.stop() == 0
    lost = set(range(RECORDS)) - set(place.table.rows)
    assert lost == {0}
    assert not any(reader.doubled)
    assert "offsets 0 to 0 (1 records) are not in the table" in heir.log
