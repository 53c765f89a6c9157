"""Repeats a step that talks to another system until it works."""

import logging
import random
import threading
from collections.abc import Callable
from typing import TypeVar

from app.errors import ConnectorError, RetryableError
from app.timings import Timings

logger = logging.getLogger(__name__)

_FIRST_REMINDER_SECONDS = 10.0
_LONGEST_REMINDER_SECONDS = 60.0

_T = TypeVar("_T")


class Waiting:
    """Logs one wait for an unavailable system: the begin, reminders at growing intervals, and the end."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._begin: float | None = None
        self._next_reminder = 0.0
        self._pause = _FIRST_REMINDER_SECONDS

    def failed(self, error: ConnectorError) -> None:
        now = self._clock()
        text = str(error).rstrip(".")
        if self._begin is None:
            self._begin = now
            logger.warning("%s. Trying again", text)
        elif now >= self._next_reminder:
            logger.warning("still waiting after %.0f s: %s", now - self._begin, text)
            self._pause = min(self._pause * 2, _LONGEST_REMINDER_SECONDS)
        else:
            return
        self._next_reminder = now + self._pause

    def worked(self) -> None:
        if self._begin is not None:
            logger.info("it works after %.0f s of waiting", self._clock() - self._begin)


class Stopped(Exception):  # noqa: N818 - not an error: the process is asked to end
    """The process stops during the wait; the work is not done."""


def until_it_works(
    work: Callable[[], _T],
    *,
    stop: threading.Event,
    on_wait: Callable[[RetryableError | None], None],
    timings: Timings,
) -> _T:
    """Calls ``work`` until it no longer raises ``RetryableError``, with growing, jittered pauses.

    ``work`` is safe to repeat. ``on_wait`` gets the error of each failure, and ``None`` once the work succeeds.

    Raises:
        Stopped: ``stop`` was set while waiting.
    """
    pause = timings.first_retry_seconds
    waiting_since: float | None = None
    doing = logged = ""
    while True:
        try:
            result = work()
        except RetryableError as error:
            doing = error.doing
            if waiting_since is None:
                waiting_since = timings.clock()
            if str(error) != logged:  # the cause may change during the wait
                logged = str(error)
                logger.warning("%s. Trying again until it works", logged.rstrip("."))
            on_wait(error)
            # Half of the pause is random, so that many sinks do not return to a store at the same moment. The other
            # side's ``retry_after`` can only lengthen it: repeated answers of 0 s would make a busy loop.
            wanted = max(pause * random.uniform(0.5, 1), error.retry_after or 0.0)  # noqa: S311
            if stop.wait(min(wanted, timings.longest_retry_seconds)):
                raise Stopped from error
            pause = min(pause * 2, timings.longest_retry_seconds)
        else:
            if waiting_since is not None:
                logger.info("%s: it works again after %.0f s", doing, timings.clock() - waiting_since)
                on_wait(None)
            return result
