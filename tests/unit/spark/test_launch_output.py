"""What Java prints becomes lines of the log, and its options come from the environment."""

import logging
import subprocess
from pathlib import Path

import pytest

from app.errors import ConfigError, ConnectorError, SparkLostError
from app.spark.java import Java
from app.spark.launch import connect, extra_options, java_log, start_java
from tests.support.waiting import wait_until


def test_what_java_prints_becomes_lines_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    printed = (
        "WARNING: Using incubator modules\n[0.150s][warning][aot,codecache] Saved blob's name 'LLIL'\n"
        "[0.1s][error  ][aot] java.lang.NoClassDefFoundError\n"
        "ERROR Task failed: java.io.IOException\nJAVA_HOME is not set\n\nFATAL bye\n"
    )
    with java_log() as output:
        subprocess.run(["printf", "%s", printed], stdout=output.descriptor, check=True)
    wait_until(lambda: len(caplog.records) >= 6, "all lines are in the log")
    assert [(each.name, each.levelname, each.message) for each in caplog.records] == [
        ("spark", "DEBUG", "WARNING: Using incubator modules"),
        ("spark", "DEBUG", "[0.150s][warning][aot,codecache] Saved blob's name 'LLIL'"),
        ("spark", "INFO", "[0.1s][error  ][aot] java.lang.NoClassDefFoundError"),
        ("spark", "ERROR", "Task failed: java.io.IOException"),
        ("spark", "INFO", "JAVA_HOME is not set"),
        ("spark", "CRITICAL", "bye"),
    ]


def test_options_with_an_open_quote_are_an_error_that_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Da='b c' -Dd=e")
    assert extra_options() == ["-Da=b c", "-Dd=e"]
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Da='b c")
    with pytest.raises(ConfigError, match="SPARK_SUBMIT_OPTS cannot be read: No closing quotation"):
        extra_options()


@pytest.mark.parametrize(
    ("said", "seconds", "kind", "cause"),
    [
        ('Exception in thread "main" java.lang.Error: boom', 300.0, ConfigError, "java.lang.Error: boom"),
        ("", 0.0, SparkLostError, "Java does not listen after 0 s"),
    ],
)
def test_a_java_that_lives_and_never_listens_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, seconds: float, kind: type[ConnectorError], cause: str
) -> None:
    monkeypatch.setattr("app.spark.launch.START_SECONDS", seconds)
    program = tmp_path / "java"
    program.write_text(f"#!/bin/sh\necho '{said}'\nexec sleep 600\n")
    program.chmod(0o755)
    with java_log() as output:
        java = start_java(Java(program, 25), "512m", tmp_path, output)
    with pytest.raises(kind, match=cause):
        connect(java)
    assert java.end() < 0
