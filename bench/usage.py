"""Memory and processor time of processes and all that they started, read from Linux's ``/proc``."""

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

PROC = Path("/proc")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 2**20
SAMPLE_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Usage:
    """What processes have used at a time in seconds since the epoch.

    ``cpu_seconds`` is processor time, user and system, of all of them since they began, ``java_cpu_seconds`` the part
    of Java; ``resident_mb`` is the memory of all of them together, right now.
    """

    time: float
    cpu_seconds: float
    java_cpu_seconds: float
    resident_mb: float


def usage(pids: Sequence[int]) -> Usage:
    """What the processes and their descendants have used so far, those that have ended and were waited for included."""
    cpu = java_cpu = resident = 0.0
    for stat in _family(pids):
        # utime, stime, and those of children that were waited for: fields 14 to 17 of proc(5), which counts from 1
        seconds = sum(map(int, stat.fields[11:15])) / TICKS_PER_SECOND
        cpu += seconds
        java_cpu += seconds if stat.name == "java" else 0.0
        resident += int(stat.fields[21]) * PAGE_MB
    return Usage(time.time(), cpu, java_cpu, resident)


@dataclass(frozen=True, slots=True)
class _Stat:
    """A process: ``fields`` are those of its ``stat`` from the third on."""

    pid: int
    name: str
    fields: Sequence[str]


def _family(pids: Sequence[int]) -> list[_Stat]:
    found: dict[int, _Stat] = {}
    children: dict[int, list[int]] = {}
    for entry in PROC.glob("[0-9]*/stat"):
        try:
            text = entry.read_text()
        except (FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            continue
        before, _, after = text.rpartition(")")  # the name may hold blanks and brackets
        stat = _Stat(int(entry.parent.name), before.partition("(")[2], after.split())
        found[stat.pid] = stat
        children.setdefault(int(stat.fields[1]), []).append(stat.pid)
    family: list[_Stat] = []
    to_ask = list(pids)
    while to_ask:
        pid = to_ask.pop()
        if pid in found:
            family.append(found[pid])
        to_ask += children.get(pid, [])
    return family


class Sampler:
    """Takes down what processes use, twice a second. Use as a context manager around their work.

    Args:
        pids: of the processes; what they start is counted with them.
    """

    def __init__(self, pids: Sequence[int]) -> None:
        self._pids = pids
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._take, name="sampler", daemon=True)
        self.samples: list[Usage] = []

    def _take(self) -> None:
        self.samples.append(usage(self._pids))
        while not self._stop.wait(SAMPLE_SECONDS):
            self.samples.append(usage(self._pids))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self.samples.append(usage(self._pids))


def cpu_seconds_at(samples: Sequence[Usage], moment: float) -> float:
    """Processor seconds at a time between samples, on the straight line between its neighbours."""
    before = samples[0]
    for after in samples:
        if after.time >= moment:
            span = after.time - before.time
            share = (moment - before.time) / span if span > 0 else 0.0
            return before.cpu_seconds + max(0.0, share) * (after.cpu_seconds - before.cpu_seconds)
        before = after
    return samples[-1].cpu_seconds
