"""Maintains tables by itself: one of all members that write a table runs the commands in the background when it is due.

These are ``compact`` (COMPACT), and ``erase`` of what is older than KEEP; one process goes through all tables that this
member has to do.
"""

import logging
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from functools import partial
from threading import Event, Thread
from typing import Final

from app.config.parsers import schedule
from app.errors import ConnectorError
from app.model import Maintenance
from app.parts.commands.tables import find_table, tables_of_group
from app.parts.maintenance.background import KILLED, run_in_background
from app.parts.maintenance.record import last_maintenance
from app.service.connector import Connector, Lane
from app.storage.base import ChangedError, ObjectStore
from app.storage.document import Document
from app.table.existing_table import TableLocation
from app.table.layout import journal_folder
from app.time_texts import duration

logger = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 300.0  # at what others have done, for the page and the metrics
_STOP_SECONDS: Final = 2.0
_DAY: Final = 86_400.0
_WATCHED: Final = ("--at-most", "50")  # percent of the table
# What the commands need beside the connector: see ``app.config.memory``.
_SMALL: Final = {"SPARK_MASTER": "local[1]", "SPARK_DRIVER_MEMORY": "512m", "MALLOC_ARENA_MAX": "2"}


@dataclass
class _Table:
    last: Document[Maintenance]
    due: float
    since: float  # when this process has seen it first


class SelfMaintenance(Thread):
    """Works inside its ``with`` block, on the tables that the connector has opened by then, and those of its group."""

    def __init__(self, connector: Connector, _: Lane, clock: Callable[[], float] = time.time) -> None:
        super().__init__(name="self-maintenance", daemon=True)
        self._settings = settings = connector.settings
        self._is_confirmed = settings.keep == settings.keep_confirmed
        self._schedule = settings.compact or schedule("1d")
        self._period = self._schedule.period.total_seconds()
        self._store, self._lakes, self._metrics = connector.store, connector.lakes, connector.runtime.metrics
        self._scratch = connector.runtime.scratch / "maintenance"
        self._clock = clock
        self._tables: dict[str, _Table] = {}
        self._over = Event()

    def __enter__(self) -> None:
        self.start()

    def __exit__(self, *_: object) -> None:
        """End it, also in the midst of work, which the next run completes."""
        self._over.set()
        self.join(_STOP_SECONDS)  # the store may hang

    def run(self) -> None:
        work = defaultdict[tuple[str, ...], list[str]](list)  # tables by what is to be done to them
        while not self._over.is_set():
            seconds = _LOOK_SECONDS
            for name, lake in [*self._lakes.items()]:
                self._add(name, lake.store, lake.location)
            if self._settings.has_tables:
                with _trying_again():
                    self._add_others()
            for name, table in self._tables.items():
                with _trying_again():
                    for command in self._begun(table):
                        work[command].append(name)
                    seconds = min(seconds, table.due - self._clock())
            if known := {name: last for name, each in self._tables.items() if (last := each.last.current)}:
                together = _together([(last, self._tables[name].since) for name, last in known.items()])
                self._metrics.maintained(together, known if self._settings.has_tables else {})
            if work:
                first = max(work)  # "erase", for what it erases needs no merging
                with _trying_again():
                    self._work([*first, *(f"--table={name}" for name in work.pop(first))])
            else:
                self._over.wait(max(0.0, seconds))

    def _add_others(self) -> None:
        """Add the tables that this process has not opened: a topic is gone, or a table suspended since the start."""
        for settings in tables_of_group(self._settings, self._store, self._tables):
            with _trying_again():
                _, location, *_ = find_table(settings, self._store)
                if next(self._store.list(journal_folder(location.root)), None):  # a catalog may have it without files
                    self._add(settings.table, self._store, location)

    def _add(self, name: str, store: ObjectStore, location: TableLocation) -> None:
        # What has no time of day is made up for, where no member has begun it.
        due = self._next() - (0.0 if self._settings.compact else self._period)
        self._tables.setdefault(name, _Table(last_maintenance(store, location.root), due, self._clock()))

    def _begun(self, table: _Table) -> list[tuple[str, ...]]:
        """Looks at what others have done to the table; returns the commands that this member begins for it."""
        table.last.read()
        table.due = min(table.due, self._next())  # the clock may have been ahead
        if self._clock() < table.due:
            return []
        commands = [*self._commands(table)] if self._claim(table) else []
        table.due = self._next()
        return commands

    def _next(self) -> float:
        return self._schedule.next(datetime.fromtimestamp(self._clock(), UTC)).timestamp()

    def _claim(self, table: _Table) -> bool:
        """Whether this member does it: no other one has begun since it was due, or KEEP was confirmed meanwhile."""
        last = table.last.current or Maintenance()
        waits = last.refused and self._is_confirmed
        if table.due <= last.begun < table.due + self._period and not waits:  # later: by a clock that was ahead
            return False
        try:
            table.last.write(replace(last, begun=self._clock(), refused=0.0))
        except ChangedError:
            return False
        return True

    def _commands(self, table: _Table) -> Iterator[tuple[str, ...]]:
        last, now, keep = table.last.current or Maintenance(), self._clock(), self._settings.keep
        age = duration(keep or "0m").total_seconds()
        if keep and (last.age, last.erased // _DAY) != (age, now // _DAY):
            goes_on = last.age <= age and abs(now - last.erased) < 2 * max(_DAY, self._period)
            yield ("erase", "--older-than", keep, *(() if goes_on or self._is_confirmed else _WATCHED))
        if self._settings.compact:
            yield ("compact", "--when-cold", f"{int(self._period) // 60}m")

    def _work(self, arguments: Sequence[str]) -> None:
        if self._over.is_set():
            return
        command = arguments[0]
        logger.info("%s: begins in the background", " ".join(arguments))
        self._scratch.mkdir()
        try:
            variables = {**_SMALL, "TMPDIR": str(self._scratch)}
            code = run_in_background(arguments, variables, self._over, partial(logger.info, f"{command}: %s"))
        finally:
            shutil.rmtree(self._scratch, ignore_errors=True)
        if self._over.is_set():
            logger.info("%s: stopped with the connector; the next run goes on with what is left", command)
        elif code:
            why = "it was killed, most often for memory" if code > KILLED else "its lines say why, with LOGLEVEL=INFO"
            logger.warning("%s ended with code %d: %s; its next run goes on with what is left", command, code, why)


@contextmanager
def _trying_again() -> Iterator[None]:
    try:
        yield
    except (ConnectorError, OSError) as error:
        logger.warning("%s; maintenance is tried again in %.0f s", error, _LOOK_SECONDS)


def _together(known: Sequence[tuple[Maintenance, float]]) -> Maintenance:
    """Sums up what is known of tables: their oldest ends, the last one that is under way, and the largest refusal.

    Beside each is when it was seen first.
    """
    of = {each.name: [getattr(last, each.name) for last, _ in known] for each in fields(Maintenance)}
    told = {name: sum(values) for name, values in of.items()} | {name: max(of[name]) for name in ("age", "refused")}
    told["begun"] = max((last.begun for last, _ in known if last.begun > last.ended), default=min(of["begun"]))
    for name in ("ended", "erased"):  # a table without one counts from when it was seen
        told[name] = told[name] and min(getattr(last, name) or since for last, since in known)
    return Maintenance(**told)
