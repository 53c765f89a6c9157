"""What Java prints becomes lines of the log."""

import logging
import subprocess

import pytest

from app.spark.launch import java_log
from tests.unit.pipeline.pipeline_line import wait_until


def test_what_java_prints_becomes_lines_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    printed = (
        "WARNING: Using incubator modules\nERROR Task failed: java.io.IOException\nJAVA_HOME is not set\n\nFATAL bye\n"
    )
    with java_log() as descriptor:
        subprocess.run(["printf", "%s", printed], stdout=descriptor, check=True)
    wait_until(lambda: len(caplog.records) >= 4)
    assert [(each.name, each.levelname, each.message) for each in caplog.records] == [
        ("spark", "DEBUG", "WARNING: Using incubator modules"),
        ("spark", "ERROR", "Task failed: java.io.IOException"),
        ("spark", "INFO", "JAVA_HOME is not set"),
        ("spark", "CRITICAL", "bye"),
    ]
