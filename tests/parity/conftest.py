"""Spark for the tests that compare the two sinks."""

from collections.abc import Iterator

import pytest

from app.spark.writer import SparkWriter
from tests.services.spark import started_spark


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkWriter]:
    with started_spark(tmp_path_factory.mktemp("scratch")) as writer:
        yield writer
