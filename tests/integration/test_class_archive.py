"""The archive of Java's classes: made in the background, once, used by the next start, and given up with its parent."""

import tempfile
from pathlib import Path
from subprocess import Popen

import pytest

from app.spark.class_archive import archive_options, cached_archive, make_in_background
from app.spark.java import find_java
from app.spark.launch import connect, start_java
from dev.reading_spark import forget_java
from tests.unit.pipeline.pipeline_line import wait_until


@pytest.fixture
def archive(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where it belongs; nothing is there."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("SPARK_SUBMIT_OPTS", raising=False)
    place = cached_archive(find_java())
    assert place is not None
    return place


def _begin() -> Popen[bytes]:
    process = make_in_background(find_java(), None)
    assert process is not None
    return process


def test_two_processes_make_one_archive_with_which_java_starts(archive: Path, tmp_path: Path) -> None:
    both = [_begin(), _begin()]
    assert [process.wait(300) for process in both] == [0, 0]
    assert list(archive.parent.glob("*.archive")) == [archive]
    assert not list(archive.parent.glob("*.unfinished*"))

    with tempfile.TemporaryFile() as output:
        started = start_java(find_java(), "512m", tmp_path, output.fileno(), archive_options(find_java()))
        try:
            connect(started)
            assert str(archive) in Path(f"/proc/{started.process.pid}/maps").read_text()
        finally:
            started.process.kill()
            started.process.wait()
            forget_java()


def test_it_ends_with_the_process_that_wants_it(archive: Path) -> None:
    process = _begin()
    wait_until(lambda: len(_group(process.pid)) > 1)  # its Java

    assert process.stdin is not None
    process.stdin.close()

    wait_until(lambda: process.poll() is not None and not _group(process.pid))
    assert not archive.exists()


def _group(leader: int) -> list[str]:
    """Processes of a group that still run."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, _, group = (folder / "stat").read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if group == str(leader) and state != "Z":
            found.append(folder.name)
    return found
