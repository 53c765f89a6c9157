"""What members of the consumer group run on; all members of a process share one runtime and one buffer."""

import shutil
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.delivery.batch_limits import BatchLimits
from app.journal.late_uploads import Sweeper
from app.journal.own_log import new_token
from app.monitoring.metrics import Metrics
from app.timings import DEFAULT, Timings
from app.work_pool import WorkPool


@dataclass(frozen=True, slots=True)
class Threads:
    """Makes pools, and what threads wait with. Tests have their own, of which one thread runs at a time."""

    new_pool: Callable[[str, int], Executor] = WorkPool  # by its name and its number of threads
    new_lock: Callable[[], AbstractContextManager[Any]] = threading.RLock
    new_event: Callable[[], threading.Event] = threading.Event
    new_condition: Callable[[], threading.Condition] = threading.Condition
    sweeper: Sweeper = field(default_factory=Sweeper)
    handed_over: int = 1  # batches that may wait between two threads; 0 is any number


@dataclass(frozen=True, slots=True)
class Runtime:
    """Threads, clocks and the scratch folder.

    Attributes:
        scratch: a private folder, deleted with the process.
        workers: how many uploads run at the same time, and how many requests of claims.
        now: seconds since the epoch.
        free_bytes: of the disk with this folder.
    """

    scratch: Path
    metrics: Metrics
    timings: Timings = DEFAULT
    workers: int = 4
    threads: Threads = Threads()
    now: Callable[[], float] = time.time
    new_token: Callable[[], str] = new_token
    free_bytes: Callable[[Path], int] = lambda folder: shutil.disk_usage(folder).free


class Buffer:
    """The memory and the disk that the records of all tables of this process share on their way. Thread-safe.

    Attributes:
        is_shared: whether there may be several tables.
        changed: a batch has come a step further, or something is waited for.
        converting: held by the one table that converts: parsers are for one thread, and take memory beside the records.
    """

    def __init__(self, limits: BatchLimits, threads: Threads = Threads(), *, is_shared: bool = False) -> None:
        self.limits = limits
        self.is_shared = is_shared
        self.changed = threads.new_condition()
        self.converting = threads.new_lock()
        self._shares: tuple[Share, ...] = ()

    def new_share(self) -> "Share":
        share = Share(self)
        with self.changed:
            self._shares += (share,)
        return share

    def end(self, share: "Share") -> None:
        """Count nothing of this table any more, whatever is still on its way."""
        with self.changed:
            self._shares = tuple(each for each in self._shares if each is not share)
            self.changed.notify_all()

    @property
    def held_bytes(self) -> int:
        """Of the records that wait for their conversion."""
        return sum(each.held_bytes for each in self._shares)

    @property
    def under_way(self) -> int:
        """The number of batches that have begun and are not in the lake yet."""
        return sum(each.under_way for each in self._shares)

    @property
    def room(self) -> int:
        """Bytes of records that may be taken before it is full."""
        return self.limits.max_buffer_bytes - self.held_bytes

    @property
    def is_full(self) -> bool:
        return self.limits.is_full(self.held_bytes)

    @property
    def is_crowded(self) -> bool:
        """Whether all tables leave so little room that each converts what it has, though that is no portion."""
        return self.held_bytes >= self.limits.max_buffer_bytes // 2

    def is_crowded_by(self, share: "Share") -> bool:
        """Whether one of several tables leaves no more than half of it to the others."""
        return self.is_shared and share.held_bytes >= self.limits.max_buffer_bytes // 2

    @property
    def flush_reason(self) -> str:
        """The reason that the log shows for a batch that a flush ends."""
        return "buffer full" if self.is_full else "checkpoint"

    def shared_bytes(self, size: int) -> int:
        """The size of all open batches, if one of this size has its share of it at least.

        Else returns its own: the larger ones end first where the disk is for all.
        """
        shares = self._shares
        of_all = sum(each.staged_bytes for each in shares)
        return of_all if size * len(shares) >= of_all else size

    def wait(self, seconds: float) -> None:
        with self.changed:
            self.changed.wait(seconds)


class Share:
    """What one table takes of it.

    Attributes:
        staged_bytes: of its open batch.
    """

    def __init__(self, buffer: Buffer) -> None:
        self._changed = buffer.changed
        self.held_bytes = self.under_way = self.staged_bytes = 0

    def hold(self, size: int) -> None:
        """Count so many bytes more of records that wait, or fewer."""
        with self._changed:
            self.held_bytes += size
            self._changed.notify_all()

    def began(self, batches: int) -> None:
        """Count so many batches more that are under way, or fewer."""
        with self._changed:
            self.under_way += batches
            self._changed.notify_all()
