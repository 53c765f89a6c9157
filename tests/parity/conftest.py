"""Spark for the tests that compare the two sinks."""

import os
from collections.abc import Iterator
from unittest.mock import patch

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from app.spark import SparkWriter
from tests.parity.running import TRIED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line(
        f"parity: {TRIED['cases']:,} cases with {TRIED['records']:,} records through both sinks"
    )


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkWriter]:
    """The connector's own Spark."""
    writer = SparkWriter(
        master="local[2]",
        driver_memory="512m",
        scratch=tmp_path_factory.mktemp("scratch"),
        compression="snappy",
        row_group_rows=1_000_000,
        on_lost=lambda error: pytest.fail(str(error)),
    )
    with patch.dict(os.environ, {"LC_ALL": "C.UTF-8"}):  # Java reads names of local folders in the language it finds
        writer.start().result()
        yield writer
        writer.close()
    # PySpark keeps one Java process for the whole life of Python, and this one is gone.
    SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None
    SparkSession._instantiatedSession = None
