"""Programs that the demo and the bench start: told when they end, and gone after the block with all they started."""

import os
import sys
from pathlib import Path

import pytest

from dev.child import Child
from dev.machine import ServiceError
from tests.support.waiting import wait_until

GRANDCHILD = """
import subprocess, sys
print(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid, flush=True)
import time; time.sleep(600)
"""


def started(program: str, folder: Path) -> Child:
    command = [sys.executable, "-c", program]
    return Child("the program", command, folder=folder, environment=dict(os.environ), log=folder / "log.txt")


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_one_that_ends_by_itself_is_told_with_the_end_of_its_log(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    with started("import os, sys; print('in', os.getcwd()); sys.exit(3)", tmp_path) as child:
        wait_until(lambda: not is_running(child.pid), "it ends")
        with pytest.raises(ServiceError) as told:
            child.check_running()
    assert str(told.value) == f"the program ended by itself with exit code 3. The end of {log}:\n    in {tmp_path}"


def test_after_the_block_all_that_it_started_is_gone_too(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    with started(GRANDCHILD, tmp_path) as child:
        wait_until(lambda: log.read_text().endswith("\n"), "it begins", details=log.read_text)
        child.check_running()
        grandchild = int(log.read_text())
        assert is_running(grandchild)
    wait_until(lambda: not is_running(grandchild), "its child ends")
    assert not is_running(child.pid)
