"""The archive of Java's classes: made in the background, once, used by the next start, and given up with its parent."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen

import pytest

from app.spark.class_archive import archive_options, cached_archive, make_in_background, stop_making
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


def _begin(scratch: Path) -> Popen[bytes]:
    process = make_in_background(find_java(), None, scratch)
    assert process is not None
    return process


def _close_input(process: Popen[bytes]) -> None:
    """As the system does it for a process that is killed."""
    assert process.stdin is not None
    process.stdin.close()


def test_two_processes_make_one_archive_with_which_java_starts(archive: Path, tmp_path: Path) -> None:
    both = [_begin(tmp_path), _begin(tmp_path)]
    assert [process.wait(300) for process in both] == [0, 0]
    assert list(archive.parent.glob("*.archive")) == [archive]
    assert not list(archive.parent.glob("*.unfinished*"))

    assert _maps_archive(archive, tmp_path)

    size = archive.stat().st_size
    with archive.open("r+b") as stream:  # without a check Java crashes with this one
        stream.seek(size // 10)
        stream.write(bytes(4096))
    assert not _maps_archive(archive, tmp_path)


def _maps_archive(archive: Path, scratch: Path) -> bool:
    """Whether a Java that starts uses the archive."""
    with tempfile.TemporaryFile() as output:
        started = start_java(find_java(), "512m", scratch, output.fileno(), archive_options(find_java()))
        try:
            connect(started)
            return str(archive) in Path(f"/proc/{started.process.pid}/maps").read_text()
        finally:
            started.process.kill()
            started.process.wait()
            forget_java()


@pytest.mark.parametrize("end", [_close_input, stop_making])
def test_it_ends_with_the_process_that_wants_it(
    archive: Path, tmp_path: Path, end: Callable[[Popen[bytes]], None]
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    process = _begin(scratch)
    wait_until(lambda: len(_group(process.pid)) > 1)  # its Java
    assert list(scratch.iterdir()), "it has no other place for temporary files"

    end(process)

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
