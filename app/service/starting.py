"""Common to all parts: settings and clock, the wait for systems that are not up yet, the garbage collector."""

import gc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from app.config.settings import Settings
from app.errors import RetryableError, System, blaming
from app.monitoring.metrics import Metrics
from app.monitoring.waits import Waits
from app.retry import Waiting
from app.timings import Timings

_NEW_OBJECTS_PER_COLLECTION = 50_000  # a few calls' worth of messages
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Base:
    """Common to all parts; ``scratch`` is a private folder, deleted with the process."""

    settings: Settings
    timings: Timings
    metrics: Metrics
    scratch: Path


def patiently(system: System, work: Callable[[], _T], timings: Timings, waits: Waits) -> _T:
    """Retry ``work`` for a while: this system may not be ready yet."""
    give_up = timings.clock() + timings.start_patience_seconds
    waiting = Waiting(timings.clock)
    while True:
        try:
            with blaming(system):
                result = work()
        except RetryableError as error:
            if timings.clock() > give_up:
                raise
            waiting.failed(error)
            waits.failed("start", error)
            timings.sleep(timings.start_pause_seconds)
        else:
            waiting.worked()
            waits.over("start")
            return result


def spare_the_garbage_collector() -> None:
    """Collect less often: scanning hundreds of thousands of waiting messages took a quarter of Python's time.

    Objects of the start live as long as the process, and are frozen.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS_PER_COLLECTION, 100)
