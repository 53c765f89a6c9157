"""Compacts the table when it is due (COMPACT): one of all members that write it runs the command in the background."""

import logging
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Final

from app.config.parsers import Schedule
from app.errors import ConnectorError
from app.model import Compaction
from app.monitoring.metrics import Metrics
from app.service.background import KILLED, run_in_background
from app.storage.base import ChangedError, ObjectStore
from app.table.last_compaction import last_compaction

logger = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 300.0  # at what others have done, for the page and the metrics
_STOP_SECONDS: Final = 2.0
# What the command needs beside the connector: see ``app.config.memory``.
_SMALL: Final = {"SPARK_MASTER": "local[1]", "SPARK_DRIVER_MEMORY": "512m", "MALLOC_ARENA_MAX": "2"}


class SelfCompaction:
    """``scratch`` is a private folder."""

    def __init__(
        self,
        schedule: Schedule,
        store: ObjectStore,
        table_root: str,
        metrics: Metrics,
        scratch: Path,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._schedule = schedule
        self._last = last_compaction(store, table_root)
        self._metrics = metrics
        self._scratch = scratch / "compact"
        self._clock = clock
        self._due = self._next()
        self._stop = Event()
        self._thread = Thread(target=self._run, name="self-compaction", daemon=True)

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
                        self._tell()
                        self._compact()
                        self._tell()
                    self._due = self._next()
            except (ConnectorError, OSError) as error:
                logger.warning("%s; compaction is tried again in %.0f s", error, _LOOK_SECONDS)
                self._stop.wait(_LOOK_SECONDS)
            self._due = min(self._due, self._next())  # the clock may have been ahead
            self._stop.wait(max(0.0, min(_LOOK_SECONDS, self._due - self._clock())))

    def _next(self) -> float:
        return self._schedule.next(datetime.fromtimestamp(self._clock(), UTC)).timestamp()

    def _tell(self) -> None:
        if last := self._last.read():
            self._metrics.compacted(last)

    def _claim(self, due: float) -> bool:
        """Whether this member compacts: no other one has begun since it was due."""
        last = self._last.current or Compaction()
        if due <= last.begun < due + self._schedule.period.total_seconds():  # later: by a clock that was ahead
            return False
        try:
            self._last.write(replace(last, begun=self._clock()))
        except ChangedError:
            return False
        return True

    def _compact(self) -> None:
        logger.info("compact: begins in the background (COMPACT=%s)", self._schedule)
        self._scratch.mkdir()
        try:
            cold = f"{int(self._schedule.period.total_seconds()) // 60}m"
            variables = {**_SMALL, "TMPDIR": str(self._scratch)}
            code = run_in_background(
                ("compact", "--when-cold", cold), variables, self._stop, partial(logger.info, "compact: %s")
            )
        finally:
            shutil.rmtree(self._scratch, ignore_errors=True)
        if self._stop.is_set():
            logger.info("compact: stopped with the connector; the next run goes on with what is left")
        elif code:
            why = "it was killed, most often for memory" if code > KILLED else "its lines say why, with LOGLEVEL=INFO"
            logger.warning("compact ended with code %d: %s; its next run goes on with what is left", code, why)
