"""What members of the consumer group run on; several members in a process share one runtime."""

import shutil
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.journal.own_log import new_token
from app.journal.rolled_back import Sweeper
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
