"""Runs a command in a process of its own that yields to this one.

It runs where a core is idle, has a small share of it, and is the first to go where memory ends. Priority alone would
not do: a container's quota of processor time is for all its processes.
"""

import ctypes
import os
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
_FIRST_TO_GO: Final = "1000"
_PR_SET_PDEATHSIG: Final = 1  # of linux/prctl.h
_IS_LINUX: Final = sys.platform == "linux"
_C: Final = ctypes.CDLL(None)


def run_in_background(
    arguments: Sequence[str], variables: Mapping[str, str], stop: Event, say: Callable[[str], None]
) -> int:
    """Run this command of main.py, and return its exit code; below 0 if it was killed, as by ``stop``.

    ``variables`` are set beside the environment's; each line that it prints goes to ``say``.
    """
    with Popen(
        [sys.executable, str(MAIN), *arguments],
        env={**os.environ, **variables},
        stdin=DEVNULL,
        stdout=PIPE,
        text=True,
        errors="replace",
        process_group=0,  # with its Java
        preexec_fn=_yield_to_others if _IS_LINUX else None,  # noqa: PLW1509 - calls of the system, which take no lock
    ) as process:
        with suppress(OSError):  # it has ended, or there is no /proc
            Path(f"/proc/{process.pid}/oom_score_adj").write_text(_FIRST_TO_GO)
        assert process.stdout is not None  # noqa: S101 - it was asked for
        reader = Thread(target=_hand_on, args=(process.stdout, say), name="background", daemon=True)
        reader.start()
        try:
            _hold_back(process, stop)
        finally:
            _signal(process.pid, signal.SIGKILL)
        reader.join()
        code = process.wait()
        with suppress(ChildProcessError):
            os.waitpid(-process.pid, 0)  # with pid 1, a Java that has lost its parent is ours
        return code


def _yield_to_others() -> None:
    """Ends with the connector's process, and uses a core only while nobody else wants it."""
    _C.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    with suppress(OSError):  # sandboxes may know no priorities
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


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
