"""The services that tests run against: real ones, started once a session."""

import signal
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, TypeVar

import hypothesis
import pytest

from dev.azurite import LocalAzurite
from dev.broker import Broker
from dev.browser import Browser
from dev.chart import HELM
from dev.gcs_server import LocalGcsServer
from dev.hive_metastore import LocalHiveMetastore
from dev.iceberg_catalog import LocalIcebergCatalog
from dev.iceberg_nessie import LocalNessie
from dev.kafka import LocalKafka
from dev.kafka_jars import KAFKA_VERSION
from dev.machine import ServiceError, make_once
from dev.minio import LocalMinio
from dev.parsed_classes import archive_variables, make_archive
from dev.promtool import promtool_program
from dev.schema_registry import LocalSchemaRegistry
from tests import night, side_by_side, targets
from tests.services.kafka_container import docker_engine, kafka_container
from tests.services.shared import shared_broker
from tests.support.unavailable import cannot_run
from tests.support.waiting import TookTooLong

REPO = Path(__file__).resolve().parents[1]
Service = TypeVar("Service")
ENGINE = pytest.StashKey[str | None]()
SHARED = pytest.StashKey[Path]()


# `make test` tries the same few examples of each property each time; `make test-night` tries many new ones.
for profile, examples in {"gate": 20, "night": 300}.items():
    hypothesis.settings.register_profile(
        profile,
        max_examples=examples,
        derandomize=profile == "gate",
        database=None,
        deadline=None,  # the machine may be busy
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )
hypothesis.settings.load_profile("gate")  # --hypothesis-profile overrules it


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--keep-durations", action="store_true", help=f"write {side_by_side.DURATIONS.name} anew")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[ENGINE] = docker_engine()
    if side_by_side.is_worker(config):
        side_by_side.take_ports_of_its_own(config)
        config.stash[SHARED] = Path(config.workerinput["shared"])  # type: ignore[attr-defined] # by xdist
    else:
        folder = tempfile.TemporaryDirectory(prefix="tests-")
        config.add_cleanup(folder.cleanup)
        config.stash[SHARED] = Path(folder.name)
        if config.option.keep_durations:
            config.pluginmanager.register(side_by_side.Durations())
    # by default SIGTERM ends the process at once and would leave the servers behind
    signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["shared"] = str(node.config.stash[SHARED])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    return side_by_side.processes(config)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> side_by_side.Scheduler:
    return side_by_side.Scheduler(config, log)


@pytest.hookimpl(tryfirst=True, wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    if elsewhere_another := [item.nodeid for item in items if " object at 0x" in item.nodeid]:
        raise pytest.UsageError(f"each process would call it differently, give it an id: {elsewhere_another[0]}")
    is_whole = not (config.option.ignore or config.option.keyword or config.option.deselect)
    if is_whole and (none := targets.without_tests([item.nodeid for item in items], config.args)):
        raise pytest.UsageError(f"tests/targets.py names what no test is called: {none}")
    if nowhere := night.without_part(item.nodeid for item in items if targets.of(item) == "night"):
        raise pytest.UsageError(f"no part of tests/night.py runs {nowhere[0]}")
    for item in items:
        target = targets.of(item)
        item.add_marker(target)  # before pytest selects by them
        if target != "unit":  # the plugin would add 40 ms to each, and they wait for nothing outside of their process
            item.add_marker(pytest.mark.flaky(reruns=1, condition=_is_late))
    yield
    # after pytest has put the tests of one parameter of a fixture together
    side_by_side.longest_first(items, side_by_side.known_durations())


def pytest_report_header(config: pytest.Config) -> str:
    engine = config.stash[ENGINE]
    how = f"by testcontainers, Docker engine {engine}" if engine else "native process, no Docker engine answers"
    # MinIO's images are no longer published: stores run natively either way
    stores = "S3 from MinIO, Google Cloud Storage from fake-gcs-server, Azure from Azurite (native processes)"
    return f"services: Kafka {KAFKA_VERSION} ({how}), {stores}"


@pytest.fixture(autouse=True)
def _outside_a_container(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said of ``localhost`` does not depend on where the tests run."""
    monkeypatch.setattr("app.container.is_container", lambda: False)


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
        if unavailable:
            cannot_run(unavailable)
        yield service


def _fixture(start: Callable[[], AbstractContextManager[object]]) -> Any:
    @pytest.fixture(scope="session")
    def running(pytestconfig: pytest.Config) -> Iterator[object]:
        with _service(start, pytestconfig) as service:
            yield service

    return running


s3_server = _fixture(LocalMinio)
gcs_server = _fixture(LocalGcsServer)
azurite = _fixture(LocalAzurite)
schema_registry = _fixture(LocalSchemaRegistry)
browser = _fixture(Browser)
promtool = _fixture(lambda: nullcontext(promtool_program()))  # the path of it
helm_program = _fixture(lambda: nullcontext(HELM.path()))


@pytest.fixture(scope="session")
def kafka(pytestconfig: pytest.Config) -> Iterator[Broker]:
    """A Kafka broker of this run of the tests; topics do not come into being by themselves on it."""
    start = kafka_container if pytestconfig.stash[ENGINE] else LocalKafka
    with _service(partial(shared_broker, pytestconfig.stash[SHARED], start), pytestconfig) as broker:
        yield broker


def _catalog(bucket: str, start: Callable[[LocalMinio], AbstractContextManager[object]]) -> Any:
    """A fixture of an Iceberg catalog, for tables in this bucket of ``s3_server``."""

    @pytest.fixture(scope="session")
    def running(s3_server: LocalMinio, pytestconfig: pytest.Config) -> Iterator[object]:
        s3_server.client().create_bucket(Bucket=bucket)
        with _service(partial(start, s3_server), pytestconfig) as service:
            yield service

    return running


iceberg_catalog = _catalog("warehouse", partial(LocalIcebergCatalog, "s3://warehouse"))  # also for tables in folders
nessie = _catalog("nessie", LocalNessie)
hive = _catalog("hive", LocalHiveMetastore)


@pytest.fixture
def bucket(s3_server: LocalMinio) -> str:
    name = f"lake-{uuid.uuid4().hex[:12]}"
    s3_server.client().create_bucket(Bucket=name)
    return name


@pytest.fixture
def gcs_bucket(gcs_server: LocalGcsServer) -> str:
    name = f"lake-{uuid.uuid4().hex[:12]}"
    gcs_server.client().create_bucket(name)
    return name


@pytest.fixture
def container(azurite: LocalAzurite) -> str:
    name = f"lake-{uuid.uuid4().hex[:12]}"
    azurite.client().create_container(name)
    return name


@pytest.fixture(scope="session")
def parsed_classes(pytestconfig: pytest.Config) -> Iterator[None]:
    """Start every connector's Java with an archive of parsed classes, as the image does: in half of the time.

    Making one costs more than the few starts in the gate would save.
    """
    if pytestconfig.option.markexpr == "standard":
        yield
        return
    archive = make_once(pytestconfig.stash[SHARED] / "spark.jsa", make_archive, "archiving Spark's classes")
    with pytest.MonkeyPatch.context() as environment:
        for name, value in archive_variables(archive).items():
            environment.setenv(name, value)
        yield


def _is_late(error: object) -> bool:
    """Whether a test may be run once more; what was lost, doubled or wrong is never looked at again."""
    return type(error) is TookTooLong
