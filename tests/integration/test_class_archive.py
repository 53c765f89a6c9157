"""The archive of Java's classes: a Java that gets it starts with it."""

import tempfile
from pathlib import Path

import pytest

from app.spark.class_archive import archive_option
from app.spark.java import find_java
from app.spark.launch import connect, forget_java, start_java
from dev.parsed_classes import make_archive


def test_java_starts_with_the_archive_that_the_command_makes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SPARK_SUBMIT_OPTS", raising=False)
    archive = tmp_path / "spark.archive"
    make_archive(archive)
    with tempfile.TemporaryFile() as output:
        started = start_java(find_java(), "512m", tmp_path, output.fileno(), [archive_option(find_java(), archive)])
        try:
            connect(started)
            assert str(archive) in Path(f"/proc/{started.process.pid}/maps").read_text()
        finally:
            started.process.kill()
            started.process.wait()
            forget_java()
