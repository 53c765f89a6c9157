"""What ``python main.py`` says to its arguments, and how commands end."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import pytest

from app import commands
from app.config.settings import Settings
from tests.support.environment import load

MAIN = Path(__file__).parents[3] / "main.py"


def settings(lake: Path, **variables: str) -> Settings:
    base = {"STORAGE_URL": f"file://{lake}", "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1", "input": "readings"}
    return load(base, **variables)


def main(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("KAFKA_", "S3_", "Quix_"))}
    return subprocess.run(
        [sys.executable, str(MAIN), *arguments],
        env={**clean, "KAFKA_BOOTSTRAP_SERVERS": "", "S3_BUCKET": "", "STORAGE_URL": "", **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_an_unknown_command_is_told_with_those_there_are() -> None:
    ended = main("reply")
    assert ended.returncode == 2
    assert ended.stdout == "ERROR! reading the arguments: there is no command 'reply'. Use none to run, or: " + (
        ", ".join(commands.COMMANDS) + "\n"
    )
    assert ended.stderr == ""


def test_a_command_reads_the_settings_and_answers(tmp_path: Path) -> None:
    ended = main("replay", STORAGE_URL=f"file://{tmp_path}", KAFKA_BOOTSTRAP_SERVERS="127.0.0.1:1", input="readings")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == f"no dead letter in file://{tmp_path}/data/_dead_letter/readings/\n"


def test_wrong_settings_are_told_as_without_a_command() -> None:
    ended = main("replay")
    assert ended.returncode == 2
    assert "KAFKA_BOOTSTRAP_SERVERS: must be set" in ended.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--form", "x"], "unrecognized arguments: --form x"),
        (["--since", "yesterday"], "argument --since: 'yesterday' is no date or time such as 2025-03-04 or "),
        (["--dry-run", "--delete"], "argument --delete: not allowed with argument --dry-run"),
    ],
)
def test_wrong_options_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert commands.run("replay", settings(tmp_path), arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"ERROR! reading the arguments: {message}")
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("raised", "code", "message"),
    [
        (KeyboardInterrupt(), 130, "ERROR! replay was stopped before its end\n"),
        (KeyError("x"), 1, "ERROR! running replay: KeyError('x'). Please report this as a bug; LOGLEVEL=DEBUG shows"),
    ],
)
def test_no_stack_trace_stands_in_for_a_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], raised: BaseException, code: int, message: str
) -> None:
    def fail(*_: object) -> int:
        raise raised

    with patch.dict(cast(Any, commands.COMMANDS), {"replay": fail}):
        assert commands.run("replay", settings(tmp_path), []) == code
    assert capsys.readouterr().err.startswith(message)
