"""Common to all parts: settings, clock and metrics; the garbage collector."""

import gc
from dataclasses import dataclass
from pathlib import Path

from app.config.settings import Settings
from app.monitoring.metrics import Metrics
from app.timings import Timings

_NEW_OBJECTS_PER_COLLECTION = 50_000  # a few calls' worth of messages


@dataclass(frozen=True, slots=True)
class Base:
    """Common to all parts; ``scratch`` is a private folder, deleted with the process."""

    settings: Settings
    timings: Timings
    metrics: Metrics
    scratch: Path


def spare_the_garbage_collector() -> None:
    """Collect less often: scanning hundreds of thousands of waiting messages took a quarter of Python's time.

    Objects of the start live as long as the process, and are frozen.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS_PER_COLLECTION, 100)
