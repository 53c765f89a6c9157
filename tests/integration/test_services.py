"""The services are real: what they are relied on for is tried once."""

import sys
import uuid
from collections.abc import Mapping, Sequence

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError
from confluent_kafka import Consumer

from dev.broker import Broker
from dev.kafka import LocalKafka
from dev.machine import ServiceError
from dev.minio import LocalMinio
from dev.server import NativeServer

LAST_YEAR = 1_735_689_600_000  # ms; long past the default retention


def _consume(broker: Broker, topic: str, count: int) -> list[tuple[bytes | None, bytes | None, int, int]]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": f"test-{uuid.uuid4()}",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    try:
        messages = consumer.consume(count, timeout=30)
    finally:
        consumer.close()
    assert not [message.error() for message in messages if message.error()]
    return [(message.key(), message.value(), message.timestamp()[1], message.partition()) for message in messages]


def test_kafka_gives_back_what_was_produced(kafka: Broker) -> None:
    topic = f"services-{uuid.uuid4()}"
    kafka.create_topic(topic, partitions=2)

    sent = kafka.produce(topic, [("k1", b'{"t": 1}', LAST_YEAR, 0), (None, "plain", LAST_YEAR + 1, 1)])

    assert sent == kafka.count(topic) == 2
    assert sorted(_consume(kafka, topic, 2), key=lambda record: record[3]) == [
        (b"k1", b'{"t": 1}', LAST_YEAR, 0),
        (None, b"plain", LAST_YEAR + 1, 1),
    ]


def test_kafka_does_not_make_up_topics(kafka: Broker) -> None:
    with pytest.raises(ServiceError, match="not-there"):
        kafka.produce("not-there", [(None, b"lost", None, None)])


def test_a_topic_cannot_be_created_twice(kafka: Broker) -> None:
    topic = f"services-{uuid.uuid4()}"
    kafka.create_topic(topic)

    with pytest.raises(ServiceError, match=f"creating topic {topic}: .*exists"):
        kafka.create_topic(topic)


def test_s3_honours_conditional_writes(s3_server: LocalMinio, bucket: str) -> None:
    s3 = s3_server.client()
    first = s3.put_object(Bucket=bucket, Key="owner", Body=b"one", IfNoneMatch="*")

    with pytest.raises(ClientError) as refused:
        s3.put_object(Bucket=bucket, Key="owner", Body=b"two", IfNoneMatch="*")
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 412

    s3.put_object(Bucket=bucket, Key="owner", Body=b"two", IfMatch=first["ETag"])
    with pytest.raises(ClientError) as stale:
        s3.put_object(Bucket=bucket, Key="owner", Body=b"three", IfMatch=first["ETag"])
    assert stale.value.response["ResponseMetadata"]["HTTPStatusCode"] == 412
    assert s3.get_object(Bucket=bucket, Key="owner")["Body"].read() == b"two"


def test_every_test_gets_a_bucket_of_its_own(s3_server: LocalMinio, bucket: str) -> None:
    assert "Contents" not in s3_server.client().list_objects_v2(Bucket=bucket)


def test_a_restarted_kafka_has_its_records_at_its_address() -> None:
    with LocalKafka() as kafka:
        kafka.create_topic("kept")
        kafka.produce("kept", [(None, b"before", None, None)])

        kafka.stop()
        assert kafka.cluster_id(timeout=1.0) is None
        kafka.start()

        kafka.produce("kept", [(None, b"after", None, None)])
        assert kafka.count("kept") == 2


def test_s3_answers_again_after_a_pause_and_after_a_restart() -> None:
    with LocalMinio() as minio:
        minio.client().create_bucket(Bucket="kept")

        minio.pause()
        with pytest.raises(ReadTimeoutError):
            minio.client(timeout=0.5, attempts=1).list_buckets()
        minio.resume()
        minio.client().head_bucket(Bucket="kept")

        minio.stop()
        with pytest.raises(EndpointConnectionError):
            minio.client(attempts=1).list_buckets()
        minio.start()
        minio.client().head_bucket(Bucket="kept")


class _Stillborn(NativeServer):
    name = "stillborn"

    def _command(self) -> Sequence[str]:
        return [sys.executable, "-c", "print('no room on the disk'); raise SystemExit(3)"]

    def _environment(self) -> Mapping[str, str]:
        return {}

    def _is_ready(self) -> bool:
        return False


def test_a_server_that_ends_at_its_start_shows_its_log() -> None:
    server = _Stillborn()
    with pytest.raises(ServiceError, match=r"ended with code 3 at its start:\n.*no room on the disk"), server:
        pytest.fail("it must not come to run")
    assert not server.folder.exists()
