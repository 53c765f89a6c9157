"""Spark for the tests that compare the two sinks."""

from collections.abc import Callable, Iterator

import pytest

from app.spark.writer import SparkWriter
from tests.parity.running import TRIED
from tests.services.spark import started_spark


@pytest.fixture(autouse=True)
def _counted(record_property: Callable[[str, object], None]) -> Iterator[None]:
    """Note how much each test has tried, for the summary."""
    before = TRIED.copy()
    yield
    for what, count in (TRIED - before).items():
        record_property(f"parity {what}", count)


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkWriter]:
    """The connector's own Spark."""
    with started_spark(tmp_path_factory.mktemp("scratch")) as writer:
        yield writer
