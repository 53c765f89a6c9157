"""Runs a command in a process of its own with a small share of a core, which ends with this process.

Between the two is this module as a program, of Python's own library alone, for a thread of the connector would wait for
the interpreter's lock at each look:

    python -P background.py <pid of the connector> <command> <arguments> …

The command runs where a core is idle, and is the first to go where memory ends. Priority alone would not do: a
container's quota of processor time is for all its processes.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from threading import Event, Thread
from typing import IO, Final

MAIN = Path(__file__).parents[3] / "main.py"
KILLED: Final = 128  # a shell adds the signal

_SHARE: Final = 0.1  # of a core
_TICK: Final = 0.25  # seconds between two looks
_FIRST_TO_GO: Final = "1000"


def run_in_background(
    arguments: Sequence[str], variables: Mapping[str, str], stop: Event, say: Callable[[str], None]
) -> int:
    """Run this command of main.py, and return its exit code; above 128 if it was killed, as by ``stop``.

    ``variables`` are set beside the environment's; each line that it prints goes to ``say``.
    """
    with Popen(
        [sys.executable, "-P", __file__, str(os.getpid()), sys.executable, str(MAIN), *arguments],
        env={**os.environ, **variables},
        stdin=DEVNULL,
        stdout=PIPE,
        text=True,
        errors="replace",
        start_new_session=True,  # what kills all of our group leaves it, and it ends the command
    ) as process:
        assert process.stdout is not None  # noqa: S101 - it was asked for
        reader = Thread(target=_hand_on, args=(process.stdout, say), name="background", daemon=True)
        reader.start()
        while process.poll() is None and not stop.wait(_TICK):
            pass
        process.terminate()
        reader.join()
        return process.wait()


def _hand_on(lines: IO[str], say: Callable[[str], None]) -> None:
    for line in lines:
        say(line.rstrip("\n"))


def main(parent: int, command: Sequence[str]) -> int:
    """Run the command, and return its exit code."""
    told: list[int] = []  # an error of the handler would leave a command behind that has just begun
    signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    with Popen(command, process_group=0, preexec_fn=_yield_to_others) as process:  # noqa: PLW1509 - no threads
        with suppress(OSError):  # it has ended, or there is no /proc
            Path(f"/proc/{process.pid}/oom_score_adj").write_text(_FIRST_TO_GO)
        try:
            _hold_back(process, lambda: bool(told) or os.getppid() != parent)
        finally:
            _signal(process.pid, signal.SIGKILL)  # with its Java
    if told:
        return KILLED + told[0]
    return process.returncode if process.returncode >= 0 else KILLED - process.returncode


def _yield_to_others() -> None:
    if sys.platform == "linux":
        with suppress(OSError):  # sandboxes may know no priorities
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def _hold_back(process: Popen[bytes], is_over: Callable[[], bool]) -> None:
    """Wait for the end of the process, and stop it for as long as it has had more than its share."""
    used, looked, ahead, is_stopped = 0.0, time.monotonic(), 0.0, False
    while process.poll() is None and not is_over():
        before, used = used, _cpu_seconds(process.pid)
        last, looked = looked, time.monotonic()
        ahead = max(0.0, ahead + used - before - _SHARE * (looked - last))
        if (ahead > 0) != is_stopped:
            is_stopped = not is_stopped
            _signal(process.pid, signal.SIGSTOP if is_stopped else signal.SIGCONT)
        time.sleep(_TICK)


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
                ticks += sum(map(int, fields[11:15]))  # with those of its children that have ended
    return ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
