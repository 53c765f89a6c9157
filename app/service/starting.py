"""Helps the start: waits for systems that are not up yet, and tunes the garbage collector."""

import gc
import logging
from collections.abc import Callable
from typing import TypeVar

from app.errors import RetryableError
from app.timings import Timings

logger = logging.getLogger(__name__)

_NEW_OBJECTS_PER_COLLECTION = 50_000  # a few calls' worth of messages
_T = TypeVar("_T")


def patiently(work: Callable[[], _T], timings: Timings) -> _T:
    """Try ``work`` again for a while: another system may not be ready yet."""
    give_up = timings.clock() + timings.start_patience_seconds
    while True:
        try:
            return work()
        except RetryableError as error:
            if timings.clock() > give_up:
                raise
            logger.warning("%s. Trying again", str(error).rstrip("."))
            timings.sleep(timings.start_pause_seconds)


def spare_the_garbage_collector() -> None:
    """Collect less often: looking at hundreds of thousands of waiting messages took a quarter of Python's time.

    Objects of the start live as long as the process, and are not looked at any more.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS_PER_COLLECTION, 100)
