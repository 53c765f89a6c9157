"""A command in the background: what it says, how much it may take, and that it ends with the connector."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from app.parts.maintenance.background import run_in_background
from dev.connector import REPO
from tests.support.waiting import wait_until

BUSY = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
print(os.sched_getscheduler(child.pid) == os.SCHED_IDLE, child.pid, os.environ["COLOUR"], flush=True)
begun = time.monotonic()
while time.monotonic() - begun < {seconds}: pass
child.kill()
child.wait()
print("done", *os.times()[:4])
sys.exit(3)
"""


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "main.py"
    monkeypatch.setattr("app.parts.maintenance.background.MAIN", program)
    return program


def test_it_hands_on_what_the_command_says_and_keeps_it_and_its_children_to_their_share(command: Path) -> None:
    command.write_text(BUSY.format(seconds=4))
    said: list[str] = []
    begun = time.monotonic()
    assert run_in_background((), {"COLOUR": "blue"}, threading.Event(), said.append) == 3
    seconds = time.monotonic() - begun
    first, last = said
    assert first.split()[::2] == ["True", "blue"]
    assert sum(map(float, last.split()[1:])) < seconds / 2, "two processes that never wait, on a part of a core"


def test_it_ends_with_its_children_when_the_connector_stops(command: Path) -> None:
    command.write_text(BUSY.format(seconds=600))
    said: list[str] = []
    stop = threading.Event()
    codes: list[int] = []
    thread = threading.Thread(
        target=lambda: codes.append(run_in_background((), {"COLOUR": "red"}, stop, said.append)), daemon=True
    )
    thread.start()
    wait_until(lambda: bool(said), "the command has begun")
    child = int(said[0].split()[1])
    stop.set()
    thread.join()
    assert codes == [128 + 15]
    wait_until(lambda: not _runs(child), "its child has ended")


def test_it_is_killed_with_the_connector(command: Path) -> None:
    command.write_text("import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(600)\n")
    run = "run_in_background((), {}, threading.Event(), lambda line: print(line, flush=True))"
    source = f"""
import threading
from pathlib import Path
from app.parts.maintenance import background
background.MAIN = Path({str(command)!r})
background.{run}
"""
    with subprocess.Popen(
        [sys.executable, "-c", source], cwd=REPO, stdout=subprocess.PIPE, text=True, process_group=0
    ) as connector:
        assert connector.stdout is not None
        child = int(connector.stdout.readline())
        os.killpg(connector.pid, signal.SIGKILL)
    wait_until(lambda: not _runs(child), "the command has ended")


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
