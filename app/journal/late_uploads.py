"""Removes the rows of objects that were rolled back, and keeps them away: an upload may still be in the network.

Before the next owner reads, a placeholder takes the name of each object, whether it is there or not: a Parquet file
without rows, with the table's columns, for readers may open it. The store then refuses the late upload. Placeholders go
after an hour; stores refuse a signed request long before.

A store without conditional writes cannot refuse. There the objects are deleted instead: at the claim, and again after
10 s, 30 s and a minute, then every ten minutes for a day, and when the process ends.
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
_FIRST_SECONDS = (10, 30, 60)  # after the roll back
_THEN_SECONDS = 600
_LISTED_SECONDS = 24 * 3600


@dataclass(slots=True)
class RolledBackObjects:
    """Those that one log lists. Not thread-safe by itself."""

    _store: ObjectStore
    _fill: Callable[[Collection[str]], None]
    _each: Callable[[Callable[[str], Any], Iterable[str]], Iterable[Any]]
    _now: Callable[[], float]
    _deleted_at: dict[str, float] = field(init=False, default_factory=dict)
    _removed: set[str] = field(init=False, default_factory=set)
    _forgotten: set[str] = field(init=False, default_factory=set)

    def remove(self, listed: Sequence[RolledBack]) -> None:
        """Remove the rows of those that were not removed before."""
        waiting = [item for item in listed if not item.removed and item.key not in self._removed]
        late = {item.key: item for item in waiting if self.may_be_back(item)}  # placeholders would have to go at once
        self._fill([item.key for item in waiting if item.key not in late])
        self._delete([*late.values()])
        self._removed |= {item.key for item in waiting}

    def sweep(self, listed: Sequence[RolledBack], *, is_last: bool = False) -> None:
        """Delete those that are due; at the end of the process all that a late upload may have brought back."""
        listed = [item for item in listed if item.key not in self._forgotten and self._is_removed(item)]
        at_once = is_last or self._store.refuses_overwrites  # a placeholder goes once, as soon as it is due
        self._delete([item for item in listed if self.may_be_back(item) and (at_once or self._is_due(item))])

    def may_be_back(self, item: RolledBack) -> bool:
        """Whether a late upload can have brought the object back: no placeholder refuses it, or none does any more."""
        return not self._store.refuses_overwrites or self._now() - item.since >= _PLACEHOLDER_SECONDS

    def still(self, listed: Sequence[RolledBack]) -> tuple[RolledBack, ...]:
        """The list for the next version of the log; without those that need no deletion any more."""
        return tuple(
            item.model_copy(update={"removed": True}) if item.key in self._removed else item
            for item in listed
            if item.key not in self._forgotten
        )

    def _is_removed(self, item: RolledBack) -> bool:
        """Whether ``remove`` is through: a sweep before would leave the placeholders that come after it."""
        return item.removed or item.key in self._removed

    def _is_due(self, item: RolledBack) -> bool:
        now = self._now()
        last = self._deleted_at.get(item.key, 0.0)
        return now - last >= _THEN_SECONDS or any(last < item.since + after <= now for after in _FIRST_SECONDS)

    def _delete(self, items: Sequence[RolledBack]) -> None:
        now = self._now()
        for _ in self._each(self._store.delete, [item.key for item in items]):
            pass
        listed_seconds = _PLACEHOLDER_SECONDS if self._store.refuses_overwrites else _LISTED_SECONDS
        for item in items:
            self._deleted_at[item.key] = now
            if now - item.since >= listed_seconds:
                self._forgotten.add(item.key)


class Sweeper:
    """Sweeps all tables of the process by turns on a thread of its own: objects may be many, and the store slow."""

    def __init__(self, seconds: float = _SWEEP_SECONDS) -> None:
        self._seconds = seconds
        self._sweeps: tuple[Callable[[], None], ...] = ()
        self._changed = threading.Condition()

    def add(self, sweep: Callable[[], None]) -> None:
        """Call this regularly, which never raises, until it is removed."""
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
    """Puts placeholders into the store; safe from several threads.

    ``dead_letter`` is the schema of the dead letter's files. ``each`` applies a function to every item, like ``map``
    and possibly side by side.
    """

    store: ObjectStore
    table_root: str
    dead_letter: pa.Schema
    each: Callable[[Callable[[str], Any], Iterable[str]], Iterable[Any]] = map

    def put(self, keys: Collection[str]) -> None:
        """Puts a placeholder under each of these keys, in place of any object there."""
        if not keys:
            return
        dead_letters = f"{dead_letter_root(self.table_root)}/"
        schema = schema_document(self.store, self.table_root).read() or EMPTY
        columns = schema.columns or {RESCUED_COLUMN: pa.string()}  # without any, engines refuse a file
        of_dead_letter, of_table = _without_rows(self.dead_letter), _without_rows(pa.schema(list(columns.items())))

        def put(key: str) -> None:
            self.store.overwrite(key, of_dead_letter if key.startswith(dead_letters) else of_table)

        for _ in self.each(put, keys):
            pass


def _without_rows(schema: pa.Schema) -> bytes:
    body = BytesIO()
    pq.write_table(schema.empty_table(), body)
    return body.getvalue()
