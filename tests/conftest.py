"""The services that tests run against: real ones, started once a session."""

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn, TypeVar

import pytest

from dev.broker import Broker
from dev.kafka import LocalKafka
from dev.kafka_jars import KAFKA_VERSION
from dev.machine import ServiceError
from dev.minio import LocalMinio
from tests.services.kafka_container import docker_engine, kafka_container

REPO = Path(__file__).resolve().parents[1]
Service = TypeVar("Service")
ENGINE = pytest.StashKey[str | None]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[ENGINE] = docker_engine()
    # by default SIGTERM ends the process at once and would leave the servers behind
    signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def pytest_report_header(config: pytest.Config) -> str:
    engine = config.stash[ENGINE]
    how = f"by testcontainers, Docker engine {engine}" if engine else "native process, no Docker engine answers"
    # MinIO's images are no longer published: it runs natively either way
    return f"services: Kafka {KAFKA_VERSION} ({how}), S3 from MinIO (native process)"


@pytest.fixture(scope="session")
def kafka(pytestconfig: pytest.Config) -> Iterator[Broker]:
    """A Kafka broker of our own; topics do not come into being by themselves on it."""
    start = kafka_container if pytestconfig.stash[ENGINE] else LocalKafka
    with _service(start, pytestconfig) as broker:
        yield broker


@pytest.fixture(scope="session")
def s3_server(pytestconfig: pytest.Config) -> Iterator[LocalMinio]:
    """An S3 server of our own."""
    with _service(LocalMinio, pytestconfig) as server:
        yield server


@pytest.fixture
def bucket(s3_server: LocalMinio) -> str:
    """The name of a bucket that is new and empty."""
    name = f"lake-{uuid.uuid4().hex[:12]}"
    s3_server.client().create_bucket(Bucket=name)
    return name


@pytest.fixture(scope="session")
def parsed_classes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Start every connector's Java with an archive of parsed classes, as the image does: in half of the time."""
    folder = tmp_path_factory.mktemp("classes")
    archive = folder / "spark.jsa"
    with (folder / "archive.log").open("wb") as log:
        subprocess.run(
            [sys.executable, "-m", "dev.class_archive", str(archive)], cwd=REPO, stdout=log, stderr=log, check=True
        )
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SPARK_SUBMIT_OPTS", f"-XX:SharedArchiveFile={archive}")
        yield
    archive.unlink()


@contextmanager
def _service(start: Callable[[], AbstractContextManager[Service]], config: pytest.Config) -> Iterator[Service]:
    """Run a service; one that cannot be had skips its tests for a person, and fails them where ``CI`` is set."""
    capture = config.pluginmanager.getplugin("capturemanager")
    with ExitStack() as running:
        unavailable = ""
        try:
            with capture.global_and_fixture_disabled():  # a download says so on the terminal
                service = running.enter_context(start())
        except ServiceError as error:
            unavailable = str(error)
        if unavailable and os.environ.get("CI"):
            pytest.fail(unavailable, pytrace=False)
        if unavailable:
            pytest.skip(unavailable)
        yield service
