"""The image does its work with the least rights, and stops and fails in the ways that platforms understand."""

import json
import re
import shutil
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from dev.broker import Broker
from dev.connector import REPO
from dev.machine import ServiceError
from dev.minio import LocalMinio
from dev.server import free_ports
from tests.container.running import Container, Image, answers_ok
from tests.e2e.lake import mirror
from tests.e2e.records import records
from tests.e2e.scenario import s3_store
from tests.services.groups import committed_offsets

BATCH = 20_000
REST = 10_100  # more than is consumed at once
PACKAGES = """
import importlib.metadata
for each in importlib.metadata.distributions():
    print(f"{each.name}=={each.version}")
"""
NAMELESS = 54_321  # a UID that no passwd file knows


def _settings(kafka: Broker, s3_server: LocalMinio, bucket: str, topic: str, port: int) -> dict[str, str]:
    return {
        "input": topic,
        "KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers,
        "CONSUMER_GROUP": f"group-of-{topic}",
        "AUTO_OFFSET_RESET": "earliest",
        **s3_store(s3_server, bucket),
        "HIVE_COLUMNS": "year,month,day,location",
        "HTTP_PORT": str(port),
    }


def _numbers(s3_server: LocalMinio, bucket: str, folder: Path) -> list[int]:
    """Of the data files alone: other objects come and go."""
    return mirror(s3_server, bucket, folder, f"data/topic-{bucket}/year=").numbers()


def test_rows_get_from_kafka_to_s3_with_the_least_rights_and_the_rest_of_them_at_sigterm(
    image: Image, kafka: Broker, s3_server: LocalMinio, bucket: str, tmp_path: Path
) -> None:
    topic, port = f"topic-{bucket}", free_ports(1)[0]
    kafka.create_topic(topic)
    kafka.produce(topic, records(BATCH))
    settings = _settings(kafka, s3_server, bucket, topic, port)
    # a full batch is written as soon as no more comes; the rest waits for a commit that is an hour away
    settings |= {"BATCH_SIZE": str(BATCH), "COMMIT_INTERVAL": "3600"}

    def numbers() -> list[int]:
        return _numbers(s3_server, bucket, tmp_path)

    with Container(image, settings) as sink:
        sink.wait_until(lambda: len(numbers()) >= BATCH, "written")
        sink.wait_until(lambda: answers_ok(port, "/health/ready"), "ready")
        assert answers_ok(port, "/health/live")
        assert answers_ok(port, "/docs/README.md")
        health = sink.run_inside(*image.health_check())
        assert health.returncode == 0, health.stderr
        assert sink.run_inside("id", "-u").stdout.strip() not in ("", "0")
        assert sink.run_inside("cat", "/proc/1/comm").stdout.strip() == "python"
        kafka.produce(topic, records(REST, first=BATCH))
        assert len(numbers()) == BATCH
        assert sink.stop() == 0, sink.log()
        log = sink.log()

    assert numbers() == list(range(BATCH + REST))
    assert committed_offsets(kafka, f"group-of-{topic}", [TopicPartition(topic, 0)]) == [BATCH + REST]
    assert "CONNECTED!" in log.splitlines()
    # what Java prints when it cannot use the archive of classes that the image brings along
    assert "[cds" not in log


def test_any_user_can_run_it_with_a_new_volume_without_a_health_server_and_with_the_other_codec(
    image: Image, kafka: Broker, s3_server: LocalMinio, bucket: str, tmp_path: Path
) -> None:
    topic = f"topic-{bucket}"
    kafka.create_topic(topic)
    kafka.produce(topic, records(100))
    settings = _settings(kafka, s3_server, bucket, topic, port=0) | {"PARQUET_COMPRESSION": "zstd", "BATCH_SIZE": "100"}

    def numbers() -> list[int]:
        return _numbers(s3_server, bucket, tmp_path)

    with Container(image, settings, f"--user={NAMELESS}", scratch="--volume=/tmp") as sink:
        sink.wait_until(lambda: len(numbers()) == 100, "written")
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
    pages = ("/CHANGELOG.md", "/README.md", "/SECURITY.md", "/docs")
    names = ("", "/LICENSE", "/app", "/licences.txt", "/main.py", "/sbom.json", *pages)
    assert sorted(told.stdout.split()) == sorted(f"/app{name}" for name in names)


def test_no_program_of_the_image_gives_the_rights_of_another_user(image: Image) -> None:
    may_look_everywhere = ("--user=0", "--cap-add=DAC_READ_SEARCH")
    told = image.run(["find", "/", "-xdev", "-type", "f", "-perm", "/6000"], *may_look_everywhere)
    assert (told.returncode, told.stdout) == (0, "")


def test_a_package_that_the_lock_lacks_ends_the_build_with_the_line_to_add(
    image: Image, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    copied = ("Dockerfile", ".dockerignore", "main.py", "LICENSE", "README.md")
    for name in (*copied, *(file.name for file in REPO.glob("requirements*"))):
        shutil.copy(REPO / name, tmp_path)
    for folder in ("app", "docs"):
        (tmp_path / folder).mkdir()
    [pin] = [line for line in (REPO / "requirements-dev.txt").read_text().splitlines() if line.startswith("pytest==")]
    with (tmp_path / "requirements.txt").open("a") as file:
        file.write(f"{pin}\n")
    with pytest.raises(ServiceError):
        image.engine.build(tmp_path, f"{image.tag}-more")
    hashed = re.findall(rf"^{pin} (--hash=sha256:[0-9a-f]+)$", "".join(capfd.readouterr()), re.MULTILINE)
    assert len(hashed) == 1
    assert hashed[0] in (REPO / "requirements-dev.lock").read_text()


def test_the_image_lists_each_of_its_packages_and_their_licences(image: Image) -> None:
    installed = set(image.run(["python", "-c", PACKAGES]).stdout.split())
    components = json.loads(image.run(["cat", "sbom.json"]).stdout)["components"]
    licences = image.run(["cat", "licences.txt"]).stdout.splitlines()
    assert {f"{each['name']}=={each['version']}" for each in components} == installed
    assert {"==".join(line.split()[:2]) for line in licences[1:]} == installed
