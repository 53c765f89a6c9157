"""The image does its work with the least rights, and stops and fails in the ways that platforms understand."""

import io
import json
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from confluent_kafka import TopicPartition

from dev.broker import Broker, Record
from dev.minio import LocalMinio
from dev.server import free_ports
from tests.container.running import Container, Image, answers_ok
from tests.services.offsets import committed_offsets

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

BATCH = 20_000
REST = 10_100  # more than is consumed at once
TS_MS = 1_735_689_600_000  # 2025-01-01 in UTC
NAMELESS = 54_321  # a UID that no passwd file knows


def _readings(count: int) -> Iterator[Record]:
    for number in range(count):
        value = {
            "ts_ms": TS_MS + number * 1_000,
            "location": f"hall-{number % 4}",
            "number": number,
            "level": number / 8,
        }
        yield f"device-{number % 10}", json.dumps(value), None, None


def _settings(kafka: Broker, s3_server: LocalMinio, bucket: str, topic: str, port: int) -> dict[str, str]:
    return {
        "input": topic,
        "KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers,
        "CONSUMER_GROUP": f"group-of-{topic}",
        "AUTO_OFFSET_RESET": "earliest",
        "S3_BUCKET": bucket,
        "AWS_ENDPOINT_URL": s3_server.endpoint_url,
        "AWS_ACCESS_KEY_ID": s3_server.access_key,
        "AWS_SECRET_ACCESS_KEY": s3_server.secret_key,
        "HIVE_COLUMNS": "year,month,day,location",
        "HTTP_PORT": str(port),
    }


def _numbers_in(client: "S3Client", bucket: str) -> list[int]:
    """The column ``number`` of all Parquet files in the bucket."""
    found: list[int] = []
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket):
        for entry in page.get("Contents", []):
            if not entry["Key"].endswith(".parquet"):
                continue  # the table's schema
            file = client.get_object(Bucket=bucket, Key=entry["Key"])["Body"].read()
            found += pq.read_table(io.BytesIO(file), columns=["number"])["number"].to_pylist()
    return found


def _committed(kafka: Broker, topic: str) -> int:
    return committed_offsets(kafka, f"group-of-{topic}", [TopicPartition(topic, 0)])[0]


def test_rows_get_from_kafka_to_s3_with_the_least_rights_and_the_rest_of_them_at_sigterm(
    image: Image, kafka: Broker, s3_server: LocalMinio, bucket: str
) -> None:
    topic, port = f"topic-{bucket}", free_ports(1)[0]
    kafka.create_topic(topic)
    kafka.produce(topic, _readings(BATCH))
    settings = _settings(kafka, s3_server, bucket, topic, port)
    # a full batch is written as soon as no more comes; the rest waits for a commit that is an hour away
    settings |= {"BATCH_SIZE": str(BATCH), "COMMIT_INTERVAL": "3600"}
    client = s3_server.client()

    with Container(image, settings) as sink:
        sink.wait_until(lambda: len(_numbers_in(client, bucket)) >= BATCH, "written")
        sink.wait_until(lambda: answers_ok(port, "/health/ready"), "ready")
        assert answers_ok(port, "/health/live")
        health = sink.run_inside(*image.health_check())
        assert health.returncode == 0, health.stderr
        assert sink.run_inside("id", "-u").stdout.strip() not in ("", "0")
        assert sink.run_inside("cat", "/proc/1/comm").stdout.strip() == "python"
        kafka.produce(topic, islice(_readings(BATCH + REST), BATCH, None))
        assert len(_numbers_in(client, bucket)) == BATCH
        assert sink.stop() == 0, sink.log()
        log = sink.log()

    assert sorted(_numbers_in(client, bucket)) == list(range(BATCH + REST))
    assert _committed(kafka, topic) == BATCH + REST
    assert "CONNECTED!" in log.splitlines()
    # what Java prints when it cannot use the archive of classes that the image brings along
    assert "[cds" not in log


def test_any_user_can_run_it_without_a_health_server_and_with_the_other_codec(
    image: Image, kafka: Broker, s3_server: LocalMinio, bucket: str
) -> None:
    topic = f"topic-{bucket}"
    kafka.create_topic(topic)
    kafka.produce(topic, _readings(100))
    settings = _settings(kafka, s3_server, bucket, topic, port=0) | {"PARQUET_COMPRESSION": "zstd", "BATCH_SIZE": "100"}
    client = s3_server.client()

    with Container(image, settings, f"--user={NAMELESS}") as sink:
        sink.wait_until(lambda: len(_numbers_in(client, bucket)) == 100, "written")
        assert sink.run_inside("id", "-u").stdout.strip() == str(NAMELESS)
        assert sink.run_inside(*image.health_check()).returncode == 0
        assert sink.stop() == 0, sink.log()


def test_sigterm_ends_it_while_it_still_waits_for_kafka(image: Image, s3_server: LocalMinio, bucket: str) -> None:
    port = free_ports(1)[0]
    nobody = Broker(f"127.0.0.1:{free_ports(1)[0]}")
    with Container(image, _settings(nobody, s3_server, bucket, "sensor-data", port)) as sink:
        sink.wait_until(lambda: answers_ok(port, "/health/live"), "starting")
        assert not answers_ok(port, "/health/ready")
        assert sink.stop() == 0, sink.log()


@pytest.mark.parametrize(("port", "code"), [("0", 0), ("", 1), ("18099", 1)])
def test_the_health_check_fails_where_nobody_answers_unless_the_server_is_off(
    image: Image, port: str, code: int
) -> None:
    told = image.run(image.health_check(), f"--env=HTTP_PORT={port}")
    assert told.returncode == code, told.stderr


def test_the_image_holds_the_connector_and_nothing_else_of_the_repo(image: Image) -> None:
    told = image.run(["find", "/app", "-maxdepth", "1", "-not", "-name", "__pycache__"])
    assert sorted(told.stdout.split()) == ["/app", "/app/app", "/app/main.py"]
