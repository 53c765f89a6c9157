"""How long partitions stand still: seconds in which nobody reads them, and in which nothing of them lands."""

import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from itertools import islice, pairwise
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.group import Group
from bench.messages import Workload, records
from bench.stage import CommittedOffsets
from dev.broker import Record

LOOK_SECONDS = 0.2
# Reading its counters takes a replica some milliseconds.
COUNT_SECONDS = 0.3
SMALL_CHUNK = 6_400  # of readings: making more of them at once would interrupt the load
_LINE = re.compile(r"^(\S+ \S+) \w+ [\w.]+: (claimed|revoked|lost): (.*)", re.MULTILINE)
_PARTITION = re.compile(r"\[(\d+)\]")


class Load:
    """Readings at an even pace, a round of one for each partition after the other. Use as a context manager.

    Args:
        group: which reads them.
        workload: its readings come in their order; a round has one of each partition that the topic has now.
        rounds_a_second: the pace.
    """

    def __init__(self, group: Group, workload: Workload, rounds_a_second: int) -> None:
        self._group = group
        self._workload = workload
        self._pace = rounds_a_second
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._produce, name="load", daemon=True)
        self._sources: list[tuple[int, Iterator[Record]]] = []
        self.counts = [0] * workload.partitions

    def add(self, first: int, end: int) -> None:
        """Give these partitions readings from now on; they have begun with none."""
        found = records(self._workload, chunk=SMALL_CHUNK)
        self._sources.append((end - first, (each for each in found if first <= (each[3] or 0) < end)))

    def _produce(self) -> None:
        self._group.stage.kafka.produce(self._group.place.topic.name, self._paced())

    def _paced(self) -> Iterator[Record]:
        due = time.monotonic()
        while not self._over.wait(max(0.0, due - time.monotonic())):
            for partitions, readings in self._sources.copy():
                for reading in islice(readings, partitions):
                    self.counts[reading[3] or 0] += 1
                    yield reading
            due += 1 / self._pace

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()


@dataclass(frozen=True, slots=True)
class Standstill:
    """Seconds of a partition at a stretch, at most: of that partition which stood still longest, and of the median one.

    ``unread`` is from the last record that its owner read to the claim of the next owner, ``unlanded`` from one commit
    of its offset to the next.
    """

    unread: float
    unread_median: float
    unlanded: float
    unlanded_median: float


class Watch:
    """Looks at what a group has committed and what its replicas have read. Use as a context manager."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._over = threading.Event()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._offsets, self._counters)]
        self._moves: list[list[float]] = [[] for _ in range(group.place.topic.partitions)]
        self._reads: dict[Path, list[float]] = {}

    def _offsets(self) -> None:
        with closing(CommittedOffsets(self._group.stage, self._group.place)) as offsets:
            seen = offsets.by_partition()
            while not self._over.wait(LOOK_SECONDS):
                now, committed = time.time(), offsets.by_partition()
                for moves, before, after in zip(self._moves, seen, committed, strict=True):
                    if after > before:
                        moves.append(now)
                seen = committed

    def _counters(self) -> None:
        counts: dict[Path, float] = {}
        while not self._over.wait(COUNT_SECONDS):
            for replica in self._group.replicas.copy():
                now, count = time.time(), replica.consumed()
                if count > counts.get(replica.log, 0.0):
                    self._reads.setdefault(replica.log, []).append(now)
                    counts[replica.log] = count

    def standstill(self, begin: float, end: float) -> Standstill:
        """The longest ones between two times, in seconds since the epoch."""
        unlanded = sorted(_longest([begin, *(t for t in moves if begin < t < end), end]) for moves in self._moves)
        group = self._group
        unread = sorted(unread_seconds(group.logs, self._reads, group.ended, begin, end).values())
        return Standstill(unread[-1], unread[len(unread) // 2], unlanded[-1], unlanded[len(unlanded) // 2])

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()


def unread_seconds(
    logs: Sequence[Path], reads: Mapping[Path, Sequence[float]], ended: Mapping[Path, float], begin: float, end: float
) -> dict[int, float]:
    """The longest time in seconds in which nobody read a partition, of each that was claimed; 0 without one.

    Args:
        logs: of all replicas.
        reads: when the counter of each was seen to move.
        ended: when those that do not run were gone: who is killed cannot tell what it gave away.
        begin: of the window. All times are in seconds since the epoch.
        end: of the window.
    """
    claims: list[tuple[float, int]] = []
    stops: list[tuple[float, int]] = []
    for log in logs:
        owned: dict[int, float] = {}
        for moment, what, partitions in _told(log):
            for partition in partitions:
                if what == "claimed":
                    owned[partition] = moment
                    claims.append((moment, partition))
                elif partition in owned:
                    since = owned.pop(partition)
                    last = max((read for read in reads.get(log, []) if since < read <= moment), default=since)
                    stops.append((last, partition))
        if log in ended:
            stops += [(ended[log], partition) for partition in owned]
    longest = {partition: 0.0 for _, partition in claims}
    for stop, partition in stops:
        again = min((moment for moment, other in claims if other == partition and moment > stop), default=end)
        if begin < again and stop < end:
            longest[partition] = max(longest[partition], again - stop)
    return longest


def _told(log: Path) -> Iterator[tuple[float, str, list[int]]]:
    for moment, what, listed in _LINE.findall(log.read_text(errors="replace")):
        at = datetime.strptime(moment, "%Y-%m-%d %H:%M:%S,%f").astimezone().timestamp()
        yield at, what, [int(number) for number in _PARTITION.findall(listed)]


def _longest(moments: Sequence[float]) -> float:
    return max(after - before for before, after in pairwise(moments))
