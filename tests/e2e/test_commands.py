"""What ``python main.py`` says to its arguments, and how commands end."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pytest

from app import __version__
from tests.support.commands import run_command
from tests.support.environment import ENOUGH, local_settings
from tests.support.waiting import PATIENCE, wait_until

COMMANDS = ("check", "try", "audit", "complete", "replay", "compact", "erase")
MAIN = Path(__file__).parents[2] / "main.py"


def main(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("KAFKA_", "S3_", "Quix_"))}
    return subprocess.run(
        [sys.executable, str(MAIN), *arguments],
        env={**clean, "KAFKA_BOOTSTRAP_SERVERS": "", "S3_BUCKET": "", "STORAGE_URL": "", **variables},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "program", "message"),
    [
        (["chek"], "python main.py", "argument COMMAND: invalid choice: 'chek' (choose from "),
        (["compact", "--dry"], "python main.py", "unrecognized arguments: --dry"),
        (["replay", "--since=20240115120000Z"], "python main.py replay", "argument --since: invalid time value: '2024"),
        (["replay", "--dry-run", "--delete"], "python main.py replay", "argument --delete: not allowed with argument "),
    ],
)
def test_wrong_usage_ends_before_any_setting_is_read(arguments: list[str], program: str, message: str) -> None:
    ended = main(*arguments, BATCH_SIZE="many")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"usage: {program} [-h] ")
    assert f"\n{program}: error: {message}" in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "loading", "code", "number"),
    [
        (["audit"], "dotenv", 130, signal.SIGTERM),
        (["audit"], "pyarrow", 130, signal.SIGTERM),
        (["check"], "quixstreams", 130, signal.SIGINT),
        ([], "dotenv", 0, signal.SIGTERM),
    ],
)
def test_a_stop_while_packages_are_loaded_is_no_success_of_a_command(
    tmp_path: Path, arguments: list[str], loading: str, code: int, number: signal.Signals
) -> None:
    """An audit that ends with 0 and prints nothing would read as a table without faults."""
    # In short steps: a signal that comes just before Python begins to sleep is handled when it wakes.
    (tmp_path / f"{loading}.py").write_text("import time\nprint('loading', flush=True)\nwhile True: time.sleep(0.1)\n")
    process = subprocess.Popen(
        [sys.executable, str(MAIN), *arguments],
        env={**os.environ, **ENOUGH, "PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "loading\n"
    process.send_signal(number)
    wait_until(lambda: process.poll() is not None, "the command ends")
    _, errors = process.communicate()
    assert process.returncode == code
    assert "Traceback" not in errors


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], *([name, "--help"] for name in COMMANDS)])
def test_help_needs_no_settings_and_no_packages(arguments: list[str]) -> None:
    """``-S``: with the standard library alone, as before anything is installed."""
    ended = subprocess.run(
        [sys.executable, "-S", str(MAIN), *arguments], env={}, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    if arguments == ["--version"]:
        assert ended.stdout == f"quix-ts-datalake-sink {__version__}\n"
    else:
        assert ended.stdout.startswith("usage: python main.py ")
    if arguments == ["--help"]:
        assert all(f"\n    {name} " in ended.stdout for name in COMMANDS)


@pytest.mark.parametrize("arguments", [[], ["check"]])
def test_missing_packages_are_one_line(arguments: list[str]) -> None:
    ended = subprocess.run(
        [sys.executable, "-S", str(MAIN), *arguments], env={}, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("ERROR! starting: the package 'dotenv' is not installed")
    assert ended.stderr.count("\n") == 1


def test_a_package_that_is_missing_later_is_no_bug(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever has read the arguments says how to install it, as for the packages that are loaded first."""

    missing = ModuleNotFoundError("No module named 'azure'", name="azure")
    with patch("app.parts.audit.command.audit", side_effect=missing), pytest.raises(ModuleNotFoundError):
        run_command(local_settings(tmp_path), "audit")
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("encoding", "bucket", "said"),
    [
        ("utf-16", "x", "Save it as UTF-8"),
        ("utf-16-le", "x", "Save it as UTF-8"),
        ("latin-1", "ü", "Save it as UTF-8"),
        ("utf-8-sig", "x", 'S3_BUCKET="x": must be'),
    ],
)
def test_a_dotenv_file_in_another_encoding_is_told(tmp_path: Path, encoding: str, bucket: str, said: str) -> None:
    """``>`` of PowerShell writes UTF-16, and editors of Windows begin UTF-8 with a mark."""
    (tmp_path / "main.py").write_text(MAIN.read_text())
    (tmp_path / "app").symlink_to(MAIN.with_name("app"))
    (tmp_path / ".env").write_text(f"S3_BUCKET={bucket}\n", encoding=encoding)
    command = [sys.executable, str(tmp_path / "main.py"), "audit"]
    ended = subprocess.run(command, env={}, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (2, "")
    assert said in ended.stdout


def test_a_misspelled_variable_is_a_warning(tmp_path: Path) -> None:
    ended = main("audit", STORAGE_URL=f"file://{tmp_path}", HIVECOLUMNS="year")
    assert "WARNING app.config: HIVECOLUMNS is set but unknown: did you mean HIVE_COLUMNS?\n" in ended.stderr


def test_a_command_reads_the_settings_and_answers(tmp_path: Path) -> None:
    ended = main("replay", STORAGE_URL=f"file://{tmp_path}", KAFKA_BOOTSTRAP_SERVERS="127.0.0.1:1", input="readings")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == f"no dead letter in file://{tmp_path}/data/_dead_letter/readings/\n"


@pytest.mark.parametrize(
    ("raised", "code", "message"),
    [
        (KeyboardInterrupt(), 130, "ERROR! replay was interrupted by a signal\n"),
        (
            OSError(errno.ENOSPC, "No space left"),
            75,
            "ERROR! running replay: No space left. Free some space on that disk\n",
        ),
        (KeyError("x"), 1, "ERROR! running replay: KeyError('x'). Please report this as a bug; LOGLEVEL=DEBUG shows"),
    ],
)
def test_no_stack_trace_stands_in_for_a_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], raised: BaseException, code: int, message: str
) -> None:
    with patch("app.parts.replay.command.replay", side_effect=raised):
        assert run_command(local_settings(tmp_path), "replay") == code
    assert capsys.readouterr().err.startswith(message)
