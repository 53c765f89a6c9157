"""Runs a command in a separate process with a small share of a core. The command ends with this process.

This module is also the program between the two. A thread of the connector would wait for the interpreter's lock at
each check. The program needs only Python's standard library:

    python -P background.py <pid of the connector> <command> <arguments> …

The command runs on idle cores, and the kernel kills it first if memory runs out. Priority is not enough, because all
processes of a container share its quota of processor time.
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
_TICK: Final = 0.25  # seconds between two checks
_KILLED_FIRST: Final = "1000"


def run_in_background(
    arguments: Sequence[str], variables: Mapping[str, str], stop: Event, say: Callable[[str], None]
) -> int:
    """Run this command of main.py, and return its exit code: above 128 if it was killed, for example by ``stop``.

    The process receives the environment and ``variables``. ``say`` receives each printed line.
    """
    with Popen(
        [sys.executable, "-P", __file__, str(os.getpid()), sys.executable, str(MAIN), *arguments],
        env={**os.environ, **variables},
        stdin=DEVNULL,
        stdout=PIPE,
        text=True,
        errors="replace",
        start_new_session=True,  # a signal to the connector's group does not reach it, so it can end the command
    ) as process:
        assert process.stdout is not None  # noqa: S101 - because of PIPE
        reader = Thread(target=_forward, args=(process.stdout, say), name="background", daemon=True)
        reader.start()
        while process.poll() is None and not stop.wait(_TICK):
            pass
        process.terminate()
        reader.join()
        return process.wait()


def _forward(lines: IO[str], say: Callable[[str], None]) -> None:
    for line in lines:
        say(line.rstrip("\n"))


def main(parent: int, command: Sequence[str]) -> int:
    """Run the command, and return its exit code."""
    signals: list[int] = []  # the handler raises no error: that could leave a command running that has just begun
    signal.signal(signal.SIGTERM, lambda number, _: signals.append(number))
    with Popen(command, process_group=0, preexec_fn=_lower_priority) as process:  # noqa: PLW1509 - no threads
        with suppress(OSError):  # the process has ended, or there is no /proc
            Path(f"/proc/{process.pid}/oom_score_adj").write_text(_KILLED_FIRST)
        try:
            _throttle(process, lambda: bool(signals) or os.getppid() != parent)
        finally:
            _signal(process.pid, signal.SIGKILL)  # with its Java
    if signals:
        return KILLED + signals[0]
    return process.returncode if process.returncode >= 0 else KILLED - process.returncode


def _lower_priority() -> None:
    if sys.platform == "linux":
        with suppress(OSError):  # some sandboxes have no priorities
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def _throttle(process: Popen[bytes], is_over: Callable[[], bool]) -> None:
    """Wait for the end of the process, and suspend it while it has used more than its share."""
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
    """Return the processor time of a process group; 0 without ``/proc``."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # the process has ended
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
            if int(fields[2]) == group:
                ticks += sum(map(int, fields[11:15]))  # includes children that have ended
    return ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
