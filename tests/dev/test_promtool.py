"""Where promtool comes from."""

from pathlib import Path

import pytest

from dev.machine import ServiceError
from dev.promtool import promtool_program


@pytest.fixture(autouse=True)
def _a_machine_without_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("PROMTOOL", raising=False)


def test_a_named_one_wins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    named = tmp_path / "mine"
    named.touch(mode=0o755)
    monkeypatch.setenv("PROMTOOL", str(named))
    assert promtool_program() == str(named)


def test_a_named_one_must_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROMTOOL", "/nowhere/promtool")
    with pytest.raises(ServiceError, match="PROMTOOL=/nowhere/promtool is no program"):
        promtool_program()


def test_one_on_the_path_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    installed = tmp_path / "promtool"
    installed.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert promtool_program() == str(installed)


def test_without_debian_the_message_says_what_to_do() -> None:
    with pytest.raises(ServiceError, match=r"Debian's package prometheus.*can be named with PROMTOOL"):
        promtool_program()
