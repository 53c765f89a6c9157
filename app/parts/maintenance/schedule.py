"""Maintains tables automatically. For each table, one member of the consumer group runs the commands in the background.

COMPACT runs ``compact``. KEEP runs ``erase --older-than``. A member runs one command at a time, for one or more tables.
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

_LOOK_SECONDS: Final = 300.0  # seconds between two reads of other members' results, for the status page and metrics
_STOP_SECONDS: Final = 2.0
_DAY: Final = 86_400.0
_LIMITED: Final = ("--at-most", "50")  # maximum percentage of the table's bytes that may be erased
# With these settings, the commands need little memory, see ``app.config.memory``.
_SMALL: Final = {"SPARK_MASTER": "local[1]", "SPARK_DRIVER_MEMORY": "512m", "MALLOC_ARENA_MAX": "2"}


@dataclass
class _Table:
    last: Document[Maintenance]
    due: float
    since: float  # time when this process added the table


class SelfMaintenance(Thread):
    """Maintains the connector's open tables and the other tables of the consumer group, inside the ``with`` block."""

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
        """Stop the thread and the command in progress. The next run completes an interrupted change."""
        self._over.set()
        self.join(_STOP_SECONDS)  # seconds; a request to the store may block the thread for longer

    def run(self) -> None:
        work = defaultdict[tuple[str, ...], list[str]](list)  # the tables for each command
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
                first = max(work)  # "erase" runs first, because erased rows need no merging
                with _errors_logged():
                    self._work([*first, *(f"--table={name}" for name in work.pop(first))])
            else:
                self._over.wait(max(0.0, seconds))

    def _add_others(self) -> None:
        """Add tables that this process has not opened, because the topic was deleted or the table is suspended."""
        for settings in tables_of_group(self._settings, self._store, self._tables):
            with _errors_logged():
                _, location, *_ = find_table(settings, self._store)
                if next(
                    self._store.list(journal_folder(location.root)), None
                ):  # a table that is only in the catalog needs no maintenance
                    self._add(settings.table, self._store, location)

    def _add(self, name: str, store: ObjectStore, location: TableLocation) -> None:
        # Without COMPACT, the table is due immediately if no member has begun in this period.
        due = self._next() - (0.0 if self._settings.compact else self._period)
        self._tables.setdefault(name, _Table(last_maintenance(store, location.root), due, self._clock()))

    def _begin(self, table: _Table) -> list[tuple[str, ...]]:
        """Read the last maintenance of the table, and return the commands that this member must run now."""
        table.last.read()
        table.due = min(table.due, self._next())  # this machine's clock may have been ahead
        if self._clock() < table.due:
            return []
        commands = [*self._commands(table)] if self._claim(table) else []
        table.due = self._next()
        return commands

    def _next(self) -> float:
        return self._schedule.next(datetime.fromtimestamp(self._clock(), UTC)).timestamp()

    def _claim(self, table: _Table) -> bool:
        """Claim this period for this member; false if another member has begun. A confirmed KEEP can begin again."""
        last = table.last.current or Maintenance()
        waits = last.refused and self._is_confirmed
        if table.due <= last.begun < table.due + self._period and not waits:  # a later time is from a wrong clock
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
    """Sum up the results of tables. The sum has the oldest end, the newest run in progress, and the largest refusal.

    Each result has the time when this process added the table.
    """
    of = {field.name: [getattr(last, field.name) for last, _ in results] for field in fields(Maintenance)}
    total = {name: sum(values) for name, values in of.items()} | {name: max(of[name]) for name in ("age", "refused")}
    total["begun"] = max((last.begun for last, _ in results if last.begun > last.ended), default=min(of["begun"]))
    for name in ("ended", "erased"):  # without a result, the table's ``since`` is used
        total[name] = total[name] and min(getattr(last, name) or since for last, since in results)
    return Maintenance(**total)
