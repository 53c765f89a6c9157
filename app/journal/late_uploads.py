"""Removes the rows of rolled-back objects, and prevents late uploads of these objects.

Uploads may arrive after a roll back. Before the next owner reads records, the connector puts a placeholder under each
object key, even if the object is missing. A placeholder is a Parquet file without rows, because readers may open the
file. The store then refuses the upload. Placeholders are deleted after an hour. Stores refuse old requests earlier.

A store without conditional writes cannot refuse uploads. There, the connector deletes the objects: at the claim, after
10, 30 and 60 s, then every ten minutes for a day, and at the end of the process.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from app.journal.entry import RolledBack
from app.storage.base import ObjectStore
from app.table.layout import RESCUED_COLUMN, dead_letter_root
from app.table.schema import EMPTY
from app.table.schema_store import schema_document

_SWEEP_SECONDS = 10.0
_PLACEHOLDER_SECONDS = 3600
_FIRST_SECONDS = (10, 30, 60)  # seconds after the roll back
_THEN_SECONDS = 600
_LISTED_SECONDS = 24 * 3600


@dataclass(slots=True)
class RolledBackObjects:
    """Removes and deletes the rolled-back objects that one log lists. Not thread-safe."""

    _store: ObjectStore
    _fill: Callable[[Collection[str]], None]
    _map: Callable[[Callable[[str], Any], Iterable[str]], Iterable[Any]]
    _now: Callable[[], float]
    _deleted_at: dict[str, float] = field(init=False, default_factory=dict)
    _removed: set[str] = field(init=False, default_factory=set)
    _forgotten: set[str] = field(init=False, default_factory=set)

    def remove(self, listed: Sequence[RolledBack]) -> None:
        """Remove the rows of objects if they were not removed before."""
        waiting = [item for item in listed if not item.removed and item.key not in self._removed]
        late = {item.key: item for item in waiting if self.may_be_back(item)}  # a placeholder would be due already
        self._fill([item.key for item in waiting if item.key not in late])
        self._delete([*late.values()])
        self._removed |= {item.key for item in waiting}

    def sweep(self, listed: Sequence[RolledBack], *, is_last: bool = False) -> None:
        """Delete objects that are due. With ``is_last``, delete all objects that a late upload may have restored."""
        # Before ``remove`` has finished, a sweep would miss placeholders that ``remove`` puts later.
        removed = [item for item in listed if item.removed or item.key in self._removed]
        waiting = [item for item in removed if item.key not in self._forgotten and self.may_be_back(item)]
        ignores_dates = is_last or self._store.refuses_overwrites  # a placeholder is deleted only once, when it is due
        self._delete([item for item in waiting if ignores_dates or self._is_due(item)])

    def may_be_back(self, item: RolledBack) -> bool:
        """Whether a late upload may have restored the object. Without a placeholder, the store accepts late uploads."""
        return not self._store.refuses_overwrites or self._now() - item.since >= _PLACEHOLDER_SECONDS

    def remaining(self, listed: Sequence[RolledBack]) -> tuple[RolledBack, ...]:
        """Return the list for the next version of the log, without objects that no longer need to be deleted."""
        return tuple(
            item.model_copy(update={"removed": True}) if item.key in self._removed else item
            for item in listed
            if item.key not in self._forgotten
        )

    def _is_due(self, item: RolledBack) -> bool:
        now = self._now()
        last = self._deleted_at.get(item.key, 0.0)
        return now - last >= _THEN_SECONDS or any(last < item.since + after <= now for after in _FIRST_SECONDS)

    def _delete(self, items: Sequence[RolledBack]) -> None:
        now = self._now()
        for _ in self._map(self._store.delete, [item.key for item in items]):
            pass
        listed_seconds = _PLACEHOLDER_SECONDS if self._store.refuses_overwrites else _LISTED_SECONDS
        for item in items:
            self._deleted_at[item.key] = now
            if now - item.since >= listed_seconds:
                self._forgotten.add(item.key)


class Sweeper:
    """Sweeps all tables of the process one after another, on a separate thread, because a sweep may be slow."""

    def __init__(self, seconds: float = _SWEEP_SECONDS) -> None:
        self._seconds = seconds
        self._sweeps: tuple[Callable[[], None], ...] = ()
        self._changed = threading.Condition()

    def add(self, sweep: Callable[[], None]) -> None:
        """Call ``sweep`` regularly until it is removed. ``sweep`` must never raise an error."""
        with self._changed:
            if not self._sweeps:
                threading.Thread(target=self._run, name="sweep", daemon=True).start()
            self._sweeps += (sweep,)

    def remove(self, sweep: Callable[[], None]) -> None:
        with self._changed:
            self._sweeps = tuple(each for each in self._sweeps if each != sweep)
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._changed.wait_for(lambda: not self._sweeps, self._seconds):
                    return
            for sweep in self._sweeps:
                sweep()


@dataclass(frozen=True, slots=True)
class Placeholders:
    """Puts placeholders into the store. Thread-safe.

    ``dead_letter`` is the schema of the dead letter's files. ``parallel_map`` works like ``map``, with threads.
    """

    store: ObjectStore
    table_root: str
    dead_letter: pa.Schema
    parallel_map: Callable[[Callable[[str], Any], Iterable[str]], Iterable[Any]] = map

    def put(self, keys: Collection[str]) -> None:
        """Put a placeholder under each of these object keys. A placeholder replaces an existing object."""
        if not keys:
            return
        dead_letters = f"{dead_letter_root(self.table_root)}/"
        schema = schema_document(self.store, self.table_root).read() or EMPTY
        columns = schema.columns or {RESCUED_COLUMN: pa.string()}  # engines refuse a file without columns
        of_dead_letter, of_table = _empty_file(self.dead_letter), _empty_file(pa.schema(list(columns.items())))

        def put(key: str) -> None:
            self.store.overwrite(key, of_dead_letter if key.startswith(dead_letters) else of_table)

        for _ in self.parallel_map(put, keys):
            pass


def _empty_file(schema: pa.Schema) -> bytes:
    body = BytesIO()
    pq.write_table(schema.empty_table(), body)
    return body.getvalue()
