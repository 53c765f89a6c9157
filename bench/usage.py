"""Memory and processor time of a process and all that it started, read from Linux's ``/proc``."""

import os
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Usage:
    """Peaks of resident memory in MB since the processes began, and processor seconds, user and system.

    ``cpu_seconds`` is of all processes, ``java_cpu_seconds`` the part of Java.
    """

    python_peak_mb: float
    java_peak_mb: float | None
    cpu_seconds: float
    java_cpu_seconds: float


def usage(pid: int) -> Usage:
    """What the process has used so far, and its descendants, those that have ended included."""
    family = [pid, *_descendants(pid)]
    java = [member for member in family if (PROC / str(member) / "comm").read_text().strip() == "java"]
    return Usage(
        python_peak_mb=_peak_mb(pid),
        java_peak_mb=sum(map(_peak_mb, java)) if java else None,
        cpu_seconds=sum(map(_cpu_seconds, family)),
        java_cpu_seconds=sum(map(_cpu_seconds, java)),
    )


def _descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in PROC.glob("[0-9]*/stat"):
        try:
            parent = int(_fields(entry)[1])
        except (FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            continue
        children.setdefault(parent, []).append(int(entry.parent.name))
    found: list[int] = []
    to_ask = [pid]
    while to_ask:
        mine = children.get(to_ask.pop(), [])
        found += mine
        to_ask += mine
    return found


def _cpu_seconds(pid: int) -> float:
    # utime, stime, and those of children that were waited for: fields 14 to 17 of proc(5), which counts from 1
    return sum(map(int, _fields(PROC / str(pid) / "stat")[11:15])) / TICKS_PER_SECOND


def _fields(stat: Path) -> list[str]:
    """The fields from the third on: the second is the name, which may hold blanks and brackets."""
    return stat.read_text().rpartition(")")[2].split()


def _peak_mb(pid: int) -> float:
    for line in (PROC / str(pid) / "status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise ProcessLookupError(f"process {pid} has ended")
