"""Maintains tables automatically: one of the members that write a table runs the commands in the background.

The commands are ``compact`` (COMPACT) and ``erase --older-than`` (KEEP). One process handles all tables of this member.
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
from app.parts.commands.find_tables import find_table, tables_of_group
from app.parts.maintenance.background import KILLED, run_in_background
from app.parts.maintenance.record import last_maintenance
from app.service.connector import Connector, Lane
from app.storage.base import ChangedError, ObjectStore
from app.storage.document import Document
from app.table.existing_table import TableLocation
from app.table.layout import journal_folder
from app.time_texts import duration

logger = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 300.0  # between two reads of the results of other members, for the page and the metrics
_STOP_SECONDS: Final = 2.0
_DAY: Final = 86_400.0
_LIMITED: Final = ("--at-most", "50")  # percent of the table
# The commands need little memory next to the connector: see ``app.config.memory``.
_SMALL: Final = {"SPARK_MASTER": "local[1]", "SPARK_DRIVER_MEMORY": "512m", "MALLOC_ARENA_MAX": "2"}


@dataclass
class _Table:
    last: Document[Maintenance]
    due: float
    since: float  # when this process added the table


class SelfMaintenance(Thread):
    """Works inside its ``with`` block, on the open tables of the connector, and the tables of its consumer group."""

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
        """Stop the thread, also during work, which the next run completes."""
        self._over.set()
        self.join(_STOP_SECONDS)  # the store may hang

    def run(self) -> None:
        work = defaultdict[tuple[str, ...], list[str]](list)  # tables by their commands
        while not self._over.is_set():
            seconds = _LOOK_SECONDS
            for name, lake in [*self._lakes.items()]:
                self._add(name, lake.store, lake.location)
            if self._settings.has_tables:
                with _errors_logged():
                    self._add_others()
            for name, table in self._tables.items():
                with _errors_logged():
                    for command in self._begin(table):
                        work[command].append(name)
                    seconds = min(seconds, table.due - self._clock())
            if results := {name: last for name, table in self._tables.items() if (last := table.last.current)}:
                total = _sum([(last, self._tables[name].since) for name, last in results.items()])
                self._metrics.maintained(total, results if self._settings.has_tables else {})
            if work:
                first = max(work)  # "erase" comes first, because erased rows need no merging
                with _errors_logged():
                    self._work([*first, *(f"--table={name}" for name in work.pop(first))])
            else:
                self._over.wait(max(0.0, seconds))

    def _add_others(self) -> None:
        """Add the tables that this process has not opened: of deleted topics, or suspended since the start."""
        for settings in tables_of_group(self._settings, self._store, self._tables):
            with _errors_logged():
                _, location, *_ = find_table(settings, self._store)
                if next(
                    self._store.list(journal_folder(location.root)), None
                ):  # a table in a catalog may have no files
                    self._add(settings.table, self._store, location)

    def _add(self, name: str, store: ObjectStore, location: TableLocation) -> None:
        # Without a time of day, a period that no member has begun is due immediately.
        due = self._next() - (0.0 if self._settings.compact else self._period)
        self._tables.setdefault(name, _Table(last_maintenance(store, location.root), due, self._clock()))

    def _begin(self, table: _Table) -> list[tuple[str, ...]]:
        """Read the results of other members, and return the commands that this member begins for the table."""
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
        """Whether this member begins: no other member has begun since the due time, or KEEP was confirmed meanwhile."""
        last = table.last.current or Maintenance()
        waits = last.refused and self._is_confirmed
        if table.due <= last.begun < table.due + self._period and not waits:  # later times are from a wrong clock
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
            is_regular = last.age <= age and abs(now - last.erased) < 2 * max(_DAY, self._period)
            yield ("erase", "--older-than", keep, *(() if is_regular or self._is_confirmed else _LIMITED))
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
            logger.info("%s: stopped with the connector; the next run continues", command)
        elif code:
            why = "it was killed, probably for lack of memory" if code > KILLED else "see its lines, with LOGLEVEL=INFO"
            logger.warning("%s ended with code %d: %s; the next run continues", command, code, why)


@contextmanager
def _errors_logged() -> Iterator[None]:
    try:
        yield
    except (ConnectorError, OSError) as error:
        logger.warning("%s; retrying maintenance in %.0f s", error, _LOOK_SECONDS)


def _sum(results: Sequence[tuple[Maintenance, float]]) -> Maintenance:
    """Sum up the results of tables: their oldest ends, the newest run in progress, and the largest refusal.

    The time next to each result is when this process added the table.
    """
    of = {field.name: [getattr(last, field.name) for last, _ in results] for field in fields(Maintenance)}
    total = {name: sum(values) for name, values in of.items()} | {name: max(of[name]) for name in ("age", "refused")}
    total["begun"] = max((last.begun for last, _ in results if last.begun > last.ended), default=min(of["begun"]))
    for name in ("ended", "erased"):  # a table without a result counts from its addition
        total[name] = total[name] and min(getattr(last, name) or since for last, since in results)
    return Maintenance(**total)
