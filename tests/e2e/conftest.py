"""What the scenarios share: the way to set one up, a quick start for Java, and a Spark to read with."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from dev.broker import Broker
from tests.e2e.connector import REPO
from tests.e2e.scenario import Scenario
from tests.e2e.spark_reader import SparkReader, spark_reader

NewScenario = Callable[..., Scenario]


@pytest.fixture
def scenario(new_scenario: NewScenario) -> Scenario:
    """A topic of one partition."""
    return new_scenario()


@pytest.fixture(scope="session", autouse=True)
def _parsed_classes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
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


@pytest.fixture
def new_scenario(kafka: Broker, tmp_path: Path) -> Iterator[NewScenario]:
    """Makes scenarios: ``new_scenario(partitions=3)``."""
    with ExitStack() as ends:

        def new(partitions: int = 1) -> Scenario:
            made = Scenario(kafka, tmp_path, partitions)
            return ends.enter_context(closing(made))

        yield new


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkReader]:
    with spark_reader(tmp_path_factory.mktemp("reader") / "spark.log") as reader:
        yield reader
