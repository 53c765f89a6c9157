"""Programs that the demo and the bench start: told when they end, and gone after the block with all they started."""

import os
import sys
import time
from pathlib import Path

from dev.child import Child
from dev.machine import ServiceError

WAIT = 10.0
GRANDCHILD = """
import subprocess, sys
print(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid, flush=True)
import time; time.sleep(600)
"""


def started(program: str, folder: Path) -> Child:
    command = [sys.executable, "-c", program]
    return Child("the program", command, folder=folder, environment=dict(os.environ), log=folder / "log.txt")


def wait_until_ended(child: Child) -> ServiceError:
    """What it says once it has ended."""
    deadline = time.monotonic() + WAIT
    while time.monotonic() < deadline:
        try:
            child.check_running()
        except ServiceError as error:
            return error
        time.sleep(0.01)
    raise AssertionError("it still runs")


def is_running(pid: int) -> bool:
    """Whether there is such a process that has not ended, whoever is to collect it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_one_that_ends_by_itself_is_told_with_the_end_of_its_log(tmp_path: Path) -> None:
    with started("import os, sys; print('in', os.getcwd()); sys.exit(3)", tmp_path) as child:
        error = wait_until_ended(child)
    log = tmp_path / "log.txt"
    assert str(error) == f"the program ended by itself with exit code 3. The end of {log}:\n    in {tmp_path}"


def test_after_the_block_all_that_it_started_is_gone_too(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    with started(GRANDCHILD, tmp_path) as child:
        deadline = time.monotonic() + WAIT
        while not log.read_text().endswith("\n"):
            assert time.monotonic() < deadline, "it does not begin"
            time.sleep(0.01)
        child.check_running()
        grandchild = int(log.read_text())
        assert is_running(grandchild)
    deadline = time.monotonic() + WAIT
    while is_running(grandchild):
        assert time.monotonic() < deadline, "it still runs"
        time.sleep(0.01)
    assert not is_running(child.pid)
