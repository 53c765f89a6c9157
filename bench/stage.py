"""Where runs take place: a Kafka with filled topics, a MinIO, and a fresh place in both for each run."""

import json
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import requests
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from bench.avro import schema_of
from bench.messages import Workload, expected_totals, records
from bench.totals import Totals
from dev.broker import QUIET
from dev.connector import REPO
from dev.iceberg_catalog import LocalIcebergCatalog
from dev.kafka import LocalKafka
from dev.machine import ServiceError, announce
from dev.minio import LocalMinio
from dev.schema_registry import LocalSchemaRegistry

LOGS = REPO / ".cache" / "bench"
ASK_SECONDS = 30.0
ASK_AGAIN_SECONDS = 0.1
# A new broker makes its topic of offsets when the first group asks for it.
NO_COORDINATOR_YET = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)
DELETED_AT_ONCE = 1_000  # as many as S3 takes in one request


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic that holds the readings of ``workload``, and what they add up to."""

    name: str
    workload: Workload
    expected: Totals

    @property
    def messages(self) -> int:
        return self.workload.messages

    @property
    def partitions(self) -> int:
        return self.workload.partitions


@dataclass(frozen=True, slots=True)
class Place:
    """A consumer group without offsets and an empty bucket, both named ``name``, and an empty folder."""

    name: str
    topic: Topic
    folder: Path
    log: Path


class Stage:
    """The services of a benchmark, and what lies in them.

    Args:
        kafka, minio: running.
        classes: the archive that connectors start Java with.
        catalog: returns the Iceberg catalog; the first call starts it, before a sink of it is timed.
        registry: running, if there are to be topics in Avro.
    """

    def __init__(
        self,
        kafka: LocalKafka,
        minio: LocalMinio,
        classes: Path,
        catalog: Callable[[], LocalIcebergCatalog],
        registry: LocalSchemaRegistry | None = None,
    ) -> None:
        self._registry = registry
        self.kafka = kafka
        self.minio = minio
        self.classes = classes
        self.catalog = catalog
        self._topics: dict[Workload, Topic] = {}

    @property
    def registry_url(self) -> str:
        """Where clients of Confluent's registry find the schemas.

        Raises:
            ServiceError: there is no registry.
        """
        if self._registry is None:
            raise ServiceError("a topic in Avro needs a schema registry, and none was started")
        return self._registry.url

    def topic(self, workload: Workload) -> Topic:
        """The topic with these readings, which are produced when they are asked for first."""
        if workload not in self._topics:
            form = "Avro" if workload.avro else "JSON"
            announce(f"Producing {workload.messages:,} messages in {form} to {workload.partitions} partitions")
            schema_id = 0
            if workload.avro:
                ((_, message, _, _),) = records(replace(workload, avro=False), last=1)
                schema_id = self.register(workload.name, message or b"")
            self.kafka.create_topic(workload.name, workload.partitions)
            self.kafka.produce(workload.name, records(workload, schema_id=schema_id))
            self._topics[workload] = Topic(workload.name, workload, expected_totals(workload))
        return self._topics[workload]

    def register(self, topic: str, message: str | bytes) -> int:
        """Tell the registry the schema of the topic's values, which is that of a message in JSON; returns its id."""
        address = f"{self.registry_url}/subjects/{topic}-value/versions"
        answer = requests.post(address, json={"schema": json.dumps(schema_of(message))}, timeout=ASK_SECONDS)
        answer.raise_for_status()
        return int(answer.json()["id"])

    @contextmanager
    def place(self, what: str, topic: Topic) -> Iterator[Place]:
        """Make room for one run of ``what``; bucket and folder are gone after the block, the log stays."""
        name = f"{what}-{uuid.uuid4().hex[:12]}"
        self.minio.client().create_bucket(Bucket=name)
        LOGS.mkdir(parents=True, exist_ok=True)
        try:
            with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
                yield Place(name, topic, Path(folder), LOGS / f"{what}.log")
        finally:
            self._delete_bucket(name)

    def _delete_bucket(self, name: str) -> None:
        client = self.minio.client()
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=name)
        keys = [item["Key"] for page in pages for item in page.get("Contents", [])]
        for first in range(0, len(keys), DELETED_AT_ONCE):
            some = keys[first : first + DELETED_AT_ONCE]
            client.delete_objects(Bucket=name, Delete={"Objects": [{"Key": key} for key in some], "Quiet": True})
        client.delete_bucket(Bucket=name)


class CommittedOffsets:
    """What a consumer group has committed, asked without joining it. Use as ``contextlib.closing``."""

    def __init__(self, stage: Stage, place: Place) -> None:
        servers = stage.kafka.bootstrap_servers
        self._group = place.name
        self._consumer = Consumer({"bootstrap.servers": servers, "group.id": place.name, **QUIET})
        self._partitions = [TopicPartition(place.topic.name, number) for number in range(place.topic.partitions)]

    def by_partition(self) -> list[int]:
        """The offsets, which are also counts of messages: topics begin at 0. 0 where nothing is committed.

        Raises:
            ServiceError: the broker has no answer.
        """
        deadline = time.monotonic() + ASK_SECONDS
        while True:
            try:
                committed = self._consumer.committed(self._partitions, timeout=ASK_SECONDS)
            except KafkaException as error:
                if error.args[0].code() not in NO_COORDINATOR_YET or time.monotonic() > deadline:
                    raise ServiceError(f"asking for what {self._group} has committed: {error.args[0].str()}") from error
                time.sleep(ASK_AGAIN_SECONDS)
            else:
                return [max(0, partition.offset) for partition in committed]

    def rows(self) -> int:
        """How many messages are committed."""
        return sum(self.by_partition())

    def close(self) -> None:
        self._consumer.close()
