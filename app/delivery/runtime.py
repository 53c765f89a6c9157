"""Threads, clocks, folders and memory for members. All members of a process share one runtime and one buffer."""

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
    """Creates pools, locks, events and conditions. In tests, only one thread runs at a time."""

    new_pool: Callable[[str, int], Executor] = WorkPool  # arguments: name, number of threads
    new_lock: Callable[[], AbstractContextManager[Any]] = threading.RLock
    new_event: Callable[[], threading.Event] = threading.Event
    new_condition: Callable[[], threading.Condition] = threading.Condition
    sweeper: Sweeper = field(default_factory=Sweeper)
    handed_over: int = 1  # number of batches that may wait between two threads; 0 for any number


@dataclass(frozen=True, slots=True)
class Runtime:
    """Threads, clocks and the scratch folder.

    Attributes:
        scratch: A private folder. The folder is deleted when the process ends.
        workers: Maximum number of uploads at the same time, and of requests for claims at the same time.
        now: Function that returns the seconds since the epoch.
        free_bytes: Function that returns the free space of the disk with this folder, in bytes.
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
    """The memory and the disk that all tables of this process share for records in progress. Thread-safe.

    Attributes:
        is_shared: Whether several tables may share the buffer.
        changed: Condition that is notified when a batch has finished a step, or when a table's share has changed.
        converting: Lock of the table that converts records. Only one table converts at a time, which saves memory.
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
        """Stop counting this table's records and batches, including batches in progress."""
        with self.changed:
            self._shares = tuple(each for each in self._shares if each is not share)
            self.changed.notify_all()

    @property
    def held_bytes(self) -> int:
        """Size of the records that wait for conversion."""
        return sum(each.held_bytes for each in self._shares)

    @property
    def under_way(self) -> int:
        """Number of batches that have begun and are not in the lake yet."""
        return sum(each.under_way for each in self._shares)

    @property
    def room(self) -> int:
        """Number of bytes of records that still fit into the buffer."""
        return self.limits.max_buffer_bytes - self.held_bytes

    @property
    def is_full(self) -> bool:
        return self.limits.is_full(self.held_bytes)

    @property
    def is_crowded(self) -> bool:
        """Whether half of the buffer is in use. Then tables convert records before their portion is complete."""
        return self.held_bytes >= self.limits.max_buffer_bytes // 2

    def is_crowded_by(self, share: "Share") -> bool:
        """Whether a table's records use half of a shared buffer or more."""
        return self.is_shared and share.held_bytes >= self.limits.max_buffer_bytes // 2

    @property
    def flush_reason(self) -> str:
        """The reason in the log for a batch that ends because of a flush."""
        return "buffer full" if self.is_full else "checkpoint"

    def shared_bytes(self, size: int) -> int:
        """Return the total size of all open batches if ``size`` is at least the average size of an open batch.

        Otherwise return ``size``, because larger batches must end first.
        """
        shares = self._shares
        total = sum(each.staged_bytes for each in shares)
        return total if size * len(shares) >= total else size

    def wait(self, seconds: float) -> None:
        with self.changed:
            self.changed.wait(seconds)


class Share:
    """The part of the buffer that one table uses. ``staged_bytes`` is the size of the table's open batch."""

    def __init__(self, buffer: Buffer) -> None:
        self._changed = buffer.changed
        self.held_bytes = self.under_way = self.staged_bytes = 0

    def hold(self, size: int) -> None:
        """Add ``size`` bytes of waiting records. ``size`` is negative for records that no longer wait."""
        with self._changed:
            self.held_bytes += size
            self._changed.notify_all()

    def began(self, batches: int) -> None:
        """Add this number of batches in progress. The number is negative for batches that have ended."""
        with self._changed:
            self.under_way += batches
            self._changed.notify_all()
