"""A topic, perhaps with others, its consumer group, and the connectors that work on it."""

import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from app.spark.find_java import find_java
from dev.broker import Broker, Record
from dev.connector import REPO, customised
from dev.minio import LocalMinio
from tests.e2e.connector import ConnectorProcess
from tests.e2e.lake import Lake
from tests.e2e.records import records
from tests.services.groups import committed_offsets, leave_group

# For tests that begin with another writer than the one of every day; the mark ``java`` makes the difference.
WRITERS = pytest.mark.parametrize(
    "writer", ["pyarrow", pytest.param("Spark", marks=[pytest.mark.java, pytest.mark.night])]
)
_AT_ONCE = 2_000  # records; a load of some ten thousand a second
_PAUSE_SECONDS = 0.25  # where a rate is wanted


class Scenario:
    """``close()`` ends its connectors. ``lake`` in the folder is the store, unless settings name another.

    ``others`` has the partitions of other topics, whose names begin with that of the first.
    """

    def __init__(
        self,
        kafka: Broker,
        folder: Path,
        partitions: int = 1,
        others: Sequence[int] = (),
        *,
        java: bool = False,
        topic: str = "",
        group: str = "",
    ) -> None:
        self.topic = topic or f"readings_{uuid.uuid4().hex[:8]}"
        self.group = group or f"group-{uuid.uuid4().hex[:8]}"
        self.kafka = kafka
        self.folder = folder
        self.partitions = partitions
        self.java = java
        self._connectors = 0
        self._ends = ExitStack()
        self.topics = {self.topic: partitions} | {f"{self.topic}.{n}": count for n, count in enumerate(others)}
        for name, count in self.topics.items():
            kafka.create_topic(name, count)

    def produce(self, wanted: Iterable[Record]) -> None:
        self.kafka.produce(self.topic, wanted)

    @contextmanager
    def load(self, a_second: int | None = None) -> Iterator[list[int]]:
        """Produce records from 0 on into each topic while the block lasts; yields how many, as the sole element."""
        count = [0]
        over = threading.Event()

        def produce() -> None:
            begin = time.monotonic()
            while not over.wait(_PAUSE_SECONDS if a_second else 0.0):
                due = int(a_second * (time.monotonic() - begin)) if a_second else count[0] + _AT_ONCE
                for topic, partitions in self.topics.items():
                    self.kafka.produce(topic, records(due - count[0], first=count[0], partitions=partitions))
                count[0] = due

        with ThreadPoolExecutor(1) as thread:
            producing = thread.submit(produce)
            try:
                yield count
            finally:
                over.set()
            producing.result()

    def connector(
        self, *bases: dict[str, str], root: Path = REPO, java: bool | None = None, **variables: str
    ) -> ConnectorProcess:
        """Start a connector: the scenario's topic and group, the local lake, and what is given."""
        self._connectors += 1
        settings = {
            "input": self.topic,
            "KAFKA_BOOTSTRAP_SERVERS": self.kafka.bootstrap_servers,
            "CONSUMER_GROUP": self.group,
            "AUTO_OFFSET_RESET": "earliest",
            "COMMIT_INTERVAL": "1",
            "SPARK_DRIVER_MEMORY": "512m",
        }
        for base in bases or (self.local_store,):
            settings |= base
        folder = self.folder / f"connector-{self._connectors}"
        process = ConnectorProcess(settings | variables, folder, root, java=self.java if java is None else java)
        self._ends.enter_context(process)
        return process

    @property
    def local_store(self) -> dict[str, str]:
        return {"STORAGE_URL": (self.folder / "lake").as_uri()}

    @property
    def lake(self) -> Lake:
        return Lake(self.folder / "lake" / "data" / self.topic)

    def committed(self) -> list[int]:
        """The offsets that the group has committed, by partition; 0 where it has none."""
        asked = [TopicPartition(topic, number) for topic, count in self.topics.items() for number in range(count)]
        return [max(0, offset) for offset in committed_offsets(self.kafka, self.group, asked)]

    def wait_until_committed(self, count: int, by: ConnectorProcess) -> None:
        by.wait_until(lambda: sum(self.committed()) >= count, f"{count:,} records committed by the group")

    def finish(self, connector: ConnectorProcess, count: int) -> None:
        """Wait until so many records are committed, and stop the connector: it ends well."""
        self.wait_until_committed(count, by=connector)
        assert connector.stop() == 0

    def kill_at_work(self, settings: dict[str, str], is_at_work: Callable[[], bool]) -> list[ConnectorProcess]:
        """Kill a member while a batch of it is on its way into the store, and let two others begin."""
        killed = self.connector(settings)
        killed.wait_for_log("batch 3 ")
        killed.wait_until(is_at_work, "a batch on its way into the store")
        killed.kill()
        leave_group(self.kafka.bootstrap_servers, self.group)  # or the others would wait until its session is over
        members = [self.connector(settings) for _ in range(2)]
        for member in members:
            member.wait_for_log(r"assigned: \S+$")  # one partition each, in the end
        return [killed, *members]

    def close(self) -> None:
        self._ends.close()
        for folder in self.folder.glob("connector-*/tmp"):
            shutil.rmtree(folder)


def s3_store(server: LocalMinio, bucket: str) -> dict[str, str]:
    return {
        "S3_BUCKET": bucket,
        "AWS_ENDPOINT_URL": server.endpoint_url,
        "AWS_ACCESS_KEY_ID": server.access_key,
        "AWS_SECRET_ACCESS_KEY": server.secret_key,
        "AWS_REGION": server.region,
    }


def java_that_waits(home: Path, start: Path) -> Path:
    """A home of a Java that starts as soon as there is a file ``start``."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    wait = f'[ "$1" = -version ] || until [ -e {start} ]; do sleep 0.1; done'
    program.write_text(f'#!/bin/sh\n{wait}\nexec {find_java()} "$@"\n')
    program.chmod(0o755)
    return home


def tree_of(lane: str, folder: Path) -> Path:
    """The tree of a connector on the ``plain`` lane, there ``transforming``, or on that of the ``framework``."""
    if lane == "plain":
        return REPO
    parameters = "sdf, app" if lane == "framework" else "sdf"
    return customised(folder / "tree", f"def transform({parameters}):\n    return sdf[sdf['n'] >= 0]\n")
