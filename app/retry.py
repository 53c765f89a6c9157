"""Trying again until it works: the one loop around every step that talks to another system."""

import logging
import random
import threading
from collections.abc import Callable
from typing import TypeVar

from app.errors import RetryableError
from app.timings import Timings

logger = logging.getLogger(__name__)

_T = TypeVar("_T")


class Stopped(Exception):  # noqa: N818 - not an error: the process is asked to end
    """The wait was ended by the process stopping; what was tried is left undone."""


def until_it_works(
    work: Callable[[], _T],
    *,
    stop: threading.Event,
    on_wait: Callable[[RetryableError | None], None],
    timings: Timings,
) -> _T:
    """Call ``work`` until it no longer raises ``RetryableError``, with growing, jittered pauses.

    Args:
        work: safe to repeat.
        stop: ends the waiting.
        on_wait: told the error at each failure, and ``None`` once it works again.
        timings: the first and the longest pause.

    Raises:
        Stopped: ``stop`` was set while waiting.
    """
    pause = timings.first_retry_seconds
    waiting_since: float | None = None
    told = ""
    while True:
        try:
            result = work()
        except RetryableError as error:
            if waiting_since is None:
                waiting_since = timings.clock()
            if str(error) != told:  # what is wrong may change while we wait
                told = str(error)
                logger.warning("%s. Trying again until it works", told.rstrip("."))
            on_wait(error)
            # Half of the pause is random, so that many sinks do not come back to a store in step. What the other side
            # asks for can only make it longer: an answer of 0 s, over and over, would make a busy loop.
            wanted = max(pause * random.uniform(0.5, 1), error.retry_after or 0.0)  # noqa: S311
            if stop.wait(min(wanted, timings.longest_retry_seconds)):
                raise Stopped from error
            pause = min(pause * 2, timings.longest_retry_seconds)
        else:
            if waiting_since is not None:
                logger.info("it works again after %.0f s", timings.clock() - waiting_since)
                on_wait(None)
            return result
