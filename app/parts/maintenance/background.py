"""Runs a command in a separate process with at most a tenth of a core. If the connector ends, the command ends too.

The connector starts this module as a program, and the program starts the command and limits its processor time. A
thread of the connector would wait for the interpreter's lock. The program needs only Python's standard library:

    python -P background.py <pid of the connector> <command> <arguments> …

The command has the lowest priority. If memory runs out, the kernel kills the command first. A low priority is not
enough, because all processes in a container share one quota of processor time.
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
KILLED: Final = 128  # the exit code of a killed command is 128 plus the signal's number, as in a shell

_SHARE: Final = 0.1  # part of a core that the command may use
_TICK: Final = 0.25  # seconds between two checks
_KILLED_FIRST: Final = "1000"


def run_in_background(
    arguments: Sequence[str], variables: Mapping[str, str], stop: Event, say: Callable[[str], None]
) -> int:
    """Run a command of main.py, and return the exit code. If a signal or ``stop`` ended the command, it is above 128.

    The command receives this process's environment variables and ``variables``. ``say`` receives each printed line.
    """
    with Popen(
        [sys.executable, "-P", __file__, str(os.getpid()), sys.executable, str(MAIN), *arguments],
        env={**os.environ, **variables},
        stdin=DEVNULL,
        stdout=PIPE,
        text=True,
        errors="replace",
        start_new_session=True,  # so a signal to the connector's process group does not kill the program
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
    signals: list[int] = []  # if the handler raised an error, a new command could continue to run
    signal.signal(signal.SIGTERM, lambda number, _: signals.append(number))
    with Popen(command, process_group=0, preexec_fn=_lower_priority) as process:  # noqa: PLW1509 - no threads
        with suppress(OSError):  # the command has ended, or /proc is missing
            Path(f"/proc/{process.pid}/oom_score_adj").write_text(_KILLED_FIRST)
        try:
            _throttle(process, lambda: bool(signals) or os.getppid() != parent)
        finally:
            _signal(process.pid, signal.SIGKILL)  # also ends the command's Java process
    if signals:
        return KILLED + signals[0]
    return process.returncode if process.returncode >= 0 else KILLED - process.returncode


def _lower_priority() -> None:
    if sys.platform == "linux":
        with suppress(OSError):  # some sandboxes refuse to change the priority
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def _throttle(process: Popen[bytes], is_over: Callable[[], bool]) -> None:
    """Wait for the end of the process. Suspend the process while it has used more than its share of a core."""
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
    """Return the processor time of a process group in seconds; 0 if ``/proc`` is missing."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # the process has ended
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
            if int(fields[2]) == group:
                ticks += sum(map(int, fields[11:15]))  # includes the time of child processes that have ended
    return ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
