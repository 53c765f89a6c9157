"""Where runs take place: a Kafka with filled topics, a MinIO, and a fresh place in both for each run."""

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from bench.messages import expected_totals, records
from bench.totals import Totals
from dev.broker import QUIET
from dev.connector import REPO
from dev.kafka import LocalKafka
from dev.minio import LocalMinio

HIVE_COLUMNS = "year,month,day,location"
PREFIX, TABLE = "data", "readings"
LOGS = REPO / ".cache" / "bench"
ASK_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic that holds ``messages`` readings, and what they add up to."""

    name: str
    messages: int
    partitions: int
    expected: Totals


@dataclass(frozen=True, slots=True)
class Place:
    """A consumer group without offsets and an empty bucket, both named ``name``, and the variables that lead there."""

    name: str
    topic: Topic
    settings: Mapping[str, str]
    log: Path


class Stage:
    """The services of a benchmark, and what lies in them.

    Args:
        kafka, minio: running.
        commit_interval: of the connector, in seconds.
    """

    def __init__(self, kafka: LocalKafka, minio: LocalMinio, commit_interval: float) -> None:
        self._kafka = kafka
        self.minio = minio
        self._commit_interval = commit_interval

    def fill_topic(self, messages: int, partitions: int) -> Topic:
        """Create a topic and produce the readings to it."""
        name = f"readings-{messages}-{partitions}"
        self._kafka.create_topic(name, partitions)
        self._kafka.produce(name, records(messages, partitions))
        return Topic(name, messages, partitions, expected_totals(messages))

    def new_place(self, what: str, topic: Topic, batch_size: int, **variables: str) -> Place:
        """Make room for one run of ``what``; the variables serve the connector and the dependency's sink alike."""
        name = f"{what}-{uuid.uuid4().hex[:12]}"
        self.minio.client().create_bucket(Bucket=name)
        LOGS.mkdir(parents=True, exist_ok=True)
        settings = {
            "KAFKA_BOOTSTRAP_SERVERS": self._kafka.bootstrap_servers,
            "input": topic.name,
            "CONSUMER_GROUP": name,
            "AUTO_OFFSET_RESET": "earliest",
            "TABLE_NAME": TABLE,
            "S3_PREFIX": PREFIX,
            "HIVE_COLUMNS": HIVE_COLUMNS,
            "BATCH_SIZE": str(batch_size),
            "COMMIT_INTERVAL": f"{self._commit_interval:g}",
            "HTTP_PORT": "0",
            "Quix__BlobStorage__Connection__Json": self._connection(name),
            **variables,
        }
        return Place(name, topic, settings, LOGS / f"{what}.log")

    def _connection(self, bucket: str) -> str:
        return json.dumps(
            {
                "Provider": "Minio",
                "S3Compatible": {
                    "BucketName": bucket,
                    "AccessKeyId": self.minio.access_key,
                    "SecretAccessKey": self.minio.secret_key,
                    "Region": self.minio.region,
                    "ServiceUrl": self.minio.endpoint_url,
                },
            }
        )


class CommittedOffsets:
    """What a consumer group has committed, asked without joining it. Use as ``contextlib.closing``."""

    def __init__(self, place: Place) -> None:
        servers = place.settings["KAFKA_BOOTSTRAP_SERVERS"]
        self._consumer = Consumer({"bootstrap.servers": servers, "group.id": place.name, **QUIET})
        self._partitions = [TopicPartition(place.topic.name, number) for number in range(place.topic.partitions)]

    def by_partition(self) -> list[int]:
        """The offsets, which are also counts of messages: topics begin at 0. 0 where nothing is committed."""
        committed = self._consumer.committed(self._partitions, timeout=ASK_SECONDS)
        return [max(0, partition.offset) for partition in committed]

    def close(self) -> None:
        self._consumer.close()
