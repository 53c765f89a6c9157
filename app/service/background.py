"""Runs a command in a process of its own that yields to this one.

It has the lowest priority, a small share of a core, and is the first to go where memory ends. Priority alone would not
do: a container's quota of processor time is for all its processes.
"""

import os
import shutil
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from threading import Event, Thread
from typing import IO, Final

MAIN = Path(__file__).parents[2] / "main.py"
_SHARE: Final = 0.15  # of a core
_TICK: Final = 0.25  # seconds between two looks
_NICEST: Final = 19
_FIRST_TO_GO: Final = "1000"


def run_in_background(
    arguments: Sequence[str], variables: Mapping[str, str], stop: Event, say: Callable[[str], None]
) -> int:
    """Run this command of main.py, and return its exit code; below 0 if it was killed, as by ``stop``.

    ``variables`` are set beside the environment's; each line that it prints goes to ``say``.
    """
    # Where the connector is killed, the command ends with it, and its Java with the command.
    with_us = [found, "--pdeathsig", "KILL"] if (found := shutil.which("setpriv")) else []
    with Popen(
        [*with_us, sys.executable, str(MAIN), *arguments],
        env={**os.environ, **variables},
        stdin=DEVNULL,
        stdout=PIPE,
        text=True,
        errors="replace",
        process_group=0,  # with its Java
    ) as process:
        _be_last(process.pid)
        assert process.stdout is not None  # noqa: S101 - it was asked for
        reader = Thread(target=_hand_on, args=(process.stdout, say), name="background", daemon=True)
        reader.start()
        try:
            _hold_back(process, stop)
        finally:
            _signal(process.pid, signal.SIGKILL)
        reader.join()
        return process.wait()


def _be_last(pid: int) -> None:
    with suppress(OSError):  # it has ended, or there is no /proc
        os.setpriority(os.PRIO_PGRP, pid, _NICEST)
        Path(f"/proc/{pid}/oom_score_adj").write_text(_FIRST_TO_GO)


def _hand_on(lines: IO[str], say: Callable[[str], None]) -> None:
    for line in lines:
        say(line.rstrip("\n"))


def _hold_back(process: Popen[str], stop: Event) -> None:
    """Wait for the end of the process, and stop it for as long as it has had more than its share."""
    used = 0.0
    while process.poll() is None and not stop.wait(_TICK):
        before, used = used, _cpu_seconds(process.pid)
        pause = (used - before) / _SHARE - _TICK
        if pause > 0:
            _signal(process.pid, signal.SIGSTOP)
            stop.wait(pause)
            _signal(process.pid, signal.SIGCONT)


def _signal(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, number)


def _cpu_seconds(group: int) -> float:
    """The processor time of a process group; 0 without ``/proc``."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
            if int(fields[2]) == group:
                ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")
