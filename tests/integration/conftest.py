"""The connector's Spark, shared by the tests of a file."""

from collections.abc import Iterator

import pytest

from app.spark.writer import SparkWriter
from tests.services.spark import started_spark


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkWriter]:
    with started_spark(tmp_path_factory.mktemp("scratch")) as writer:
        yield writer
