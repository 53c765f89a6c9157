"""What Java prints becomes lines of the log, and its options come from the environment."""

import logging
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import DEVNULL, PIPE

import pytest

from app.errors import ConfigError, ConnectorError, SparkLostError
from app.spark.java_process import connect, start_java
from dev.connector import REPO
from tests.support.waiting import wait_until


def test_what_java_prints_becomes_lines_of_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    printed = (
        "WARNING: Using incubator modules\n[0.150s][warning][aot,codecache] Saved blob's name 'LLIL'\n"
        "[0.1s][error  ][aot] java.lang.NoClassDefFoundError\n"
        "ERROR Task failed: java.io.IOException\nJAVA_HOME is not set\n\nFATAL bye\n"
    )
    start_java(_program(tmp_path, f'printf %s "{printed}"'), "512m", tmp_path)
    wait_until(lambda: len(caplog.records) >= 6, "all lines are in the log")
    assert [(each.name, each.levelname, each.message) for each in caplog.records] == [
        ("spark", "DEBUG", "WARNING: Using incubator modules"),
        ("spark", "DEBUG", "[0.150s][warning][aot,codecache] Saved blob's name 'LLIL'"),
        ("spark", "INFO", "[0.1s][error  ][aot] java.lang.NoClassDefFoundError"),
        ("spark", "ERROR", "Task failed: java.io.IOException"),
        ("spark", "INFO", "JAVA_HOME is not set"),
        ("spark", "CRITICAL", "bye"),
    ]


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
    monkeypatch.setattr("app.spark.java_process.START_SECONDS", seconds)
    java = start_java(_program(tmp_path, f"echo '{said}'\nexec sleep 600"), "512m", tmp_path)
    with pytest.raises(kind, match=cause):
        connect(java)
    assert java.end() < 0


def _program(folder: Path, does: str) -> Path:
    program = folder / "java"
    program.write_text(f"#!/bin/sh\n{does}\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), 9)", "os._exit(0)", "raise ValueError"])
def test_java_ends_with_us_also_where_it_does_not_read_its_input(tmp_path: Path, end: str) -> None:
    """As one whose main thread has failed, because the folder for its address was gone."""
    java = _program(tmp_path, "exec sleep 600")
    script = (
        "import os; from pathlib import Path; from app.spark.java_process import *\n"
        f"java = start_java(Path({str(java)!r}), '512m', Path({str(tmp_path)!r}))\n"
        f"print(java.process.pid, flush=True)\n{end}"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=REPO, stdout=PIPE, stderr=DEVNULL, check=False)
    status = Path(f"/proc/{int(done.stdout)}/status")
    wait_until(lambda: not status.exists() or "State:\tZ" in status.read_text(), "the end of Java")


def test_java_outlives_the_thread_that_asks_for_it(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        java = pool.submit(start_java, _program(tmp_path, "read line; exit 7"), "512m", tmp_path).result()
    assert java.end() == 7
