"""Where the archive of classes belongs, when it is used, and that making it does no harm."""

import os
import sys
from pathlib import Path

import pytest

from app.container import MemoryLimit
from app.spark import class_archive
from app.spark.class_archive import archive_options, cached_archive, make, make_in_background
from app.spark.java import Java


@pytest.fixture
def java(tmp_path: Path) -> Java:
    home = tmp_path / "java"
    for file in (home / "bin" / "java", home / "lib" / "modules"):
        file.parent.mkdir(parents=True)
        file.write_text("made today")
    return Java(home / "bin" / "java", 25)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SPARK_SUBMIT_OPTS", raising=False)
    return tmp_path / "cache" / "quix-ts-datalake-sink" / "java"


def _train(_java: Java, archive: Path) -> None:
    archive.write_text("classes")


def test_an_archive_is_used_once_it_is_made(
    java: Java, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(class_archive, "_train", _train)
    assert archive_options(java) == []
    archive = cached_archive(java)
    assert archive is not None
    assert archive.parent == cache

    make(java, archive)

    assert archive_options(java) == ["-XX:+VerifySharedSpaces", f"-XX:AOTCache={archive}"]
    assert make_in_background(java, None, tmp_path) is None, "it is there"


def test_an_older_java_gets_a_dynamic_archive(java: Java) -> None:
    archive = cached_archive(java)
    assert archive is not None
    assert class_archive.archive_option(Java(java.path, 17), archive) == f"-XX:SharedArchiveFile={archive}"


def test_another_java_other_jars_or_options_need_another(
    java: Java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {cached_archive(java)}
    (java.path.parents[1] / "lib" / "modules").write_text("an update")
    found.add(cached_archive(java))
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-XX:+UseG1GC")
    found.add(cached_archive(java))
    (tmp_path / "jars").mkdir()
    monkeypatch.setattr(class_archive, "JARS", tmp_path / "jars")
    found.add(cached_archive(java))
    assert len(found - {None}) == 4


def test_an_archive_that_the_environment_names_is_left_alone(
    java: Java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dx=y -XX:AOTCache=/opt/native/spark.aot")
    assert cached_archive(java) is None
    assert archive_options(java) == []
    assert make_in_background(java, None, tmp_path) is None


def test_without_a_home_there_is_no_archive(java: Java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setattr(Path, "home", no_home)
    assert archive_options(java) == []
    assert make_in_background(java, None, tmp_path) is None


def test_in_a_folder_whose_name_java_cannot_take_there_is_no_archive(
    java: Java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a:b"))
    assert archive_options(java) == []
    assert make_in_background(java, None, tmp_path) is None


def test_a_cache_that_cannot_be_written_is_no_error(java: Java, cache: Path, tmp_path: Path) -> None:
    cache.parent.mkdir(parents=True)
    cache.write_text("a file in the place of the folder; root may write into a folder that is read-only")
    assert archive_options(java) == []
    assert make_in_background(java, None, tmp_path) is None


@pytest.mark.parametrize(("limit", "is_made"), [(None, True), (MemoryLimit(1024, "/sys/fs/cgroup/memory.max"), False)])
def test_where_memory_is_limited_no_second_java_is_started(
    java: Java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: MemoryLimit | None, is_made: bool
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/true")
    started = make_in_background(java, limit, tmp_path)
    assert (started is not None) == is_made
    if started:
        started.wait()


def test_of_two_that_make_it_at_once_one_leaves_it_to_the_other(java: Java, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = cached_archive(java)
    assert archive is not None
    made = []

    def train(java: Java, unfinished: Path) -> None:
        made.append(unfinished)
        assert not archive.exists(), "nobody sees it before it is whole"
        make(java, archive)  # another one, meanwhile
        unfinished.write_text("classes")

    monkeypatch.setattr(class_archive, "_train", train)
    make(java, archive)

    assert len(made) == 1
    assert archive.read_text() == "classes"
    assert not made[0].exists()


def test_a_full_disk_leaves_the_former_archive(java: Java, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_java: Java, unfinished: Path) -> None:
        unfinished.write_text("half of")
        raise OSError(28, os.strerror(28))

    archive = cached_archive(java)
    assert archive is not None
    archive.parent.mkdir(parents=True)
    archive.write_text("classes")
    monkeypatch.setattr(class_archive, "_train", fail)
    with pytest.raises(OSError, match="No space left"):
        make(java, archive)
    assert archive.read_text() == "classes"
    assert not list(archive.parent.glob("*.unfinished")), "nor what fills the disk"


def test_what_a_try_that_was_killed_has_left_is_removed(
    java: Java, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = cached_archive(java)
    assert archive is not None
    cache.mkdir(parents=True)
    for name in ("of-another-java.unfinished", "of-another-java.unfinished.config"):
        (cache / name).write_text("half of")
    monkeypatch.setattr(class_archive, "_train", _train)
    make(java, archive)
    assert {path.name for path in cache.iterdir()} == {archive.name, "archive.lock"}
