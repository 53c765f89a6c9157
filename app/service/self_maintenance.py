"""Maintains the table by itself: one of all members that write it runs the commands in the background when it is due.

These are ``compact`` (COMPACT), and ``erase`` of what is older than KEEP.
"""

import logging
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Final

from app.config.parsers import schedule
from app.config.settings import Settings
from app.errors import ConnectorError
from app.model import Maintenance
from app.monitoring.metrics import Metrics
from app.service.background import KILLED, run_in_background
from app.storage.base import ChangedError, ObjectStore
from app.table.last_maintenance import last_maintenance
from app.time_texts import duration

logger = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 300.0  # at what others have done, for the page and the metrics
_STOP_SECONDS: Final = 2.0
_DAY: Final = 86_400.0
_WATCHED: Final = ("--at-most", "50")  # percent of the table
# What the commands need beside the connector: see ``app.config.memory``.
_SMALL: Final = {"SPARK_MASTER": "local[1]", "SPARK_DRIVER_MEMORY": "512m", "MALLOC_ARENA_MAX": "2"}


class SelfMaintenance:
    """``scratch`` is a private folder."""

    def __init__(
        self,
        settings: Settings,
        store: ObjectStore,
        table_root: str,
        metrics: Metrics,
        scratch: Path,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._compact, self._keep = settings.compact, settings.keep
        self._is_confirmed = self._keep == settings.keep_confirmed
        self._schedule = settings.compact or schedule("1d")
        self._period = self._schedule.period.total_seconds()
        self._last = last_maintenance(store, table_root)
        self._metrics = metrics
        self._scratch = scratch / "maintenance"
        self._clock = clock
        # What has no time of day is made up for, where no member has begun it.
        self._due = self._next() - (0.0 if settings.compact else self._period)
        self._stop = Event()
        self._thread = Thread(target=self._run, name="self-maintenance", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End it, also in the midst of work, which the next run completes."""
        self._stop.set()
        self._thread.join(_STOP_SECONDS)  # the store may hang

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._tell()
                if self._clock() >= self._due:
                    if self._claim(self._due):
                        for command in self._commands():
                            self._tell()
                            self._work(command)
                        self._tell()
                    self._due = self._next()
            except (ConnectorError, OSError) as error:
                logger.warning("%s; maintenance is tried again in %.0f s", error, _LOOK_SECONDS)
                self._stop.wait(_LOOK_SECONDS)
            self._due = min(self._due, self._next())  # the clock may have been ahead
            self._stop.wait(max(0.0, min(_LOOK_SECONDS, self._due - self._clock())))

    def _next(self) -> float:
        return self._schedule.next(datetime.fromtimestamp(self._clock(), UTC)).timestamp()

    def _tell(self) -> None:
        if last := self._last.read():
            self._metrics.maintained(last)

    def _claim(self, due: float) -> bool:
        """Whether this member does it: no other one has begun since it was due, or KEEP was confirmed meanwhile."""
        last = self._last.current or Maintenance()
        waits = last.refused and self._is_confirmed
        if due <= last.begun < due + self._period and not waits:  # later: by a clock that was ahead
            return False
        try:
            self._last.write(replace(last, begun=self._clock(), refused=0.0))
        except ChangedError:
            return False
        return True

    def _commands(self) -> Iterator[Sequence[str]]:
        """Yields what is to be done; ``erase`` comes first, for what it erases needs no merging."""
        last, now = self._last.current or Maintenance(), self._clock()
        age = duration(self._keep or "0m").total_seconds()
        if self._keep and (last.age, last.erased // _DAY) != (age, now // _DAY):
            goes_on = last.age <= age and abs(now - last.erased) < 2 * max(_DAY, self._period)
            yield ("erase", "--older-than", self._keep, *(() if goes_on or self._is_confirmed else _WATCHED))
        if self._compact:
            yield ("compact", "--when-cold", f"{int(self._period) // 60}m")

    def _work(self, arguments: Sequence[str]) -> None:
        if self._stop.is_set():
            return
        command = arguments[0]
        logger.info("%s: begins in the background", " ".join(arguments))
        self._scratch.mkdir()
        try:
            variables = {**_SMALL, "TMPDIR": str(self._scratch)}
            code = run_in_background(arguments, variables, self._stop, partial(logger.info, f"{command}: %s"))
        finally:
            shutil.rmtree(self._scratch, ignore_errors=True)
        if self._stop.is_set():
            logger.info("%s: stopped with the connector; the next run goes on with what is left", command)
        elif code:
            why = "it was killed, most often for memory" if code > KILLED else "its lines say why, with LOGLEVEL=INFO"
            logger.warning("%s ended with code %d: %s; its next run goes on with what is left", command, code, why)
