"""Exactly once: the journal of one topic-partition in the hands of one assignment.

The protocol. Every write is conditional on the version last seen and carries the assignment's token:

claim      at assignment, before the first row: write the entry with our token, its state as it was. Only then look:
           whoever looked first could see uploads unfinished that their owner, not yet fenced, finishes afterwards.
settle     a pending batch of the former owner: all its objects are there → register the same files again, ``done``.
           Some are missing → ``done`` up to its start, its objects on the revoked list, and only then deleted.
intend     before the first upload of a batch: ``pending`` with its files.
look       after the uploads and before registering: still our version? Else another assignment owns the partition.
done       after registering. The next ``intend`` implies it.

Whoever finds that the entry is no longer its own is fenced: it registers nothing and deletes nothing but its own
objects that the new owner has revoked. An upload of a fenced member may land after they were deleted, so every owner
deletes revoked objects again at its claim and from time to time, for a day.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from app.errors import ConnectorError, FatalError, RetryableError
from app.journal_entry import JournaledFile, JournalEntry, Revoked, parse
from app.storage.base import ChangedError, Document, ObjectStore, find

logger = logging.getLogger(__name__)

_REVOKED_SECONDS = 24 * 3600
_CLAIMS_TRIED = 5


class FencedError(Exception):
    """The entry is not our last version any more: another assignment owns the partition, or the table was deleted."""


@dataclass(frozen=True, slots=True)
class Intent:
    """What a batch is about to store of one topic-partition.

    Args:
        batch: its number, counted by the assignment.
        end: its last offset.
        files: its data files.
        also: keys of its other objects.
    """

    batch: int
    end: int
    files: tuple[JournaledFile, ...]
    also: tuple[str, ...]


class Journal:
    """Reads and writes one entry.

    Any method may raise the store's errors; after a ``RetryableError`` the same call can be repeated, and another one
    may come before that: what was written meanwhile without an answer is found out. Safe from several threads.

    Args:
        store: connected.
        key: of the entry.
        owner: the assignment's token.
        roots: what the keys of the table's objects start with; an entry that names others is refused.
        each: applies a function to every item, like ``map`` and possibly side by side; a batch has up to thousands of
            objects.
        clock: monotonic seconds.
        now: seconds since the epoch.
    """

    def __init__(
        self,
        store: ObjectStore,
        key: str,
        owner: str,
        *,
        roots: tuple[str, ...],
        each: Callable[[Callable[[str], Any], Iterable[str]], Iterable[Any]] = map,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._key = key
        self._owner = owner
        self._roots = roots
        self._each = each
        self._clock = clock
        self._now = now
        self._lock = threading.RLock()
        self._entry: JournalEntry | None = None
        self._etag: str | None = None
        self._looked_at = -float("inf")
        self._forgotten: set[str] = set()

    @property
    def entry(self) -> JournalEntry | None:
        """What it says, as far as is known here; ``None`` without one."""
        return self._entry

    @property
    def seconds_since_look(self) -> float:
        """How long ago the entry was known to be ours."""
        return self._clock() - self._looked_at

    # --- at assignment ----------------------------------------------------------------------------------------------

    def claim(self, is_wanted: Callable[[], bool]) -> JournalEntry | None:
        """Make the entry ours, as it is.

        Args:
            is_wanted: whether the assignment still stands; a claim that goes on after its end would fence the
                next one.

        Returns:
            What it said; ``None`` where there is none yet, and then nothing is written either: see ``begin``.

        Raises:
            FencedError: the assignment ended, or others claim it too, again and again.
            FatalError: the entry cannot be understood.
        """
        with self._lock:
            for _ in range(_CLAIMS_TRIED):
                found = self._read()
                if not is_wanted():
                    raise FencedError("the assignment ended before its journal was claimed")
                if found is None:
                    return None
                try:
                    self._write(found.changed(owner=self._owner))
                except FencedError:
                    continue
                return found
            raise FencedError(f"others write {self._where} at the same time")

    def begin(self, end: int, topic_id: str) -> None:
        """Write ``done`` up to ``end``: for a partition without an entry, or to go on from another offset.

        Raises:
            FencedError: somebody else was quicker.
        """
        with self._lock:
            if self._entry is None:
                first = JournalEntry(
                    seq=1, owner=self._owner, batch=-1, state="done", start=end + 1, end=end, topic_id=topic_id
                )
                self._write(first)
                return
            goes_on = (self._entry.state, self._entry.end) == ("done", end)
            if not goes_on or topic_id not in ("", self._entry.topic_id):  # an id that is not told is no other one
                self._write(self._settled(start=end + 1, end=end, topic_id=topic_id))

    def settle(self, register: Callable[[Sequence[JournaledFile]], None]) -> None:
        """Finish or undo the batch that the former owner left behind, if any, and delete what was undone before.

        After an error it is to be claimed again: undoing it may have come through, or do so later, and must not meet a
        second look that finds everything there by now.

        Args:
            register: makes files known to the catalog; safe to repeat.
        """
        with self._lock:
            entry = self._claimed
            if entry.state == "pending":
                present = self._each(self._size_of, entry.objects)
                missing = _missing(entry, present)
                if missing:
                    self._roll_back(entry, missing)
                else:
                    register(entry.files)
                    self._write(self._settled())
                    logger.info("%s: batch %d of a former owner was complete: kept", self._where, entry.batch)
        self.delete_revoked()

    def switch_off(self) -> None:
        """Say that rows come from now on which the journal knows nothing of."""
        with self._lock:
            if self._claimed.state != "off":
                self._write(self._settled(state="off"))

    # --- batch by batch ---------------------------------------------------------------------------------------------

    def intend(self, intent: Intent) -> None:
        """Announce a batch before its first upload.

        Raises:
            FencedError: the entry is not ours any more.
        """
        with self._lock:
            entry = self._claimed
            if entry.state == "pending" and entry.batch == intent.batch:
                return
            self._write(
                entry.changed(
                    batch=intent.batch,
                    state="pending",
                    start=entry.end + 1,
                    end=max(entry.end, intent.end),
                    files=intent.files,
                    also=intent.also,
                    revoked=self._still_revoked,
                )
            )

    def look(self) -> None:
        """See whether the entry still is our version.

        Raises:
            FencedError: it is not.
        """
        with self._lock:
            asked_at = self._clock()
            found = self._store.read(self._key)
            if found is None or found.etag != self._etag:
                self._catch_up(found)
            self._looked_at = asked_at

    def done(self) -> None:
        """The intended batch is in the lake and registered.

        Raises:
            FencedError: the entry is not ours any more.
        """
        with self._lock:
            if self._claimed.state == "pending":
                self._write(self._settled())

    def advance(self, end: int) -> None:
        """Offsets up to ``end`` gave no more rows than those in the lake.

        Raises:
            FencedError: the entry is not ours any more.
        """
        with self._lock:
            if self._claimed.state == "done" and end > self._claimed.end:
                self._write(self._settled(start=end + 1, end=end))

    def delete_revoked(self) -> None:
        """Delete what is on the revoked list, again: it may have appeared since."""
        with self._lock:
            revoked = self._claimed.revoked
        since = self._now() - _REVOKED_SECONDS
        # Outside of the lock, for it may take long; what is revoked stays so.
        for _ in self._each(self._store.delete, [item.key for item in revoked]):
            pass
        self._forgotten = {item.key for item in revoked if item.since < since}

    # --- inside -----------------------------------------------------------------------------------------------------

    @property
    def _where(self) -> str:
        return f"{self._store.uri}/{self._key}"

    @property
    def _claimed(self) -> JournalEntry:
        assert self._entry is not None, "claim() or begin() comes first"  # noqa: S101
        return self._entry

    def _settled(self, **values: object) -> JournalEntry:
        settled = {"state": "done", "files": (), "also": (), "revoked": self._still_revoked}
        return self._claimed.changed(**{**settled, **values})

    @property
    def _still_revoked(self) -> tuple[Revoked, ...]:
        """The list without what was deleted when it had been on it for a day, however long nobody was there to."""
        return tuple(item for item in self._claimed.revoked if item.key not in self._forgotten)

    def _read(self) -> JournalEntry | None:
        found = self._store.read(self._key)
        if found is None:
            self._entry, self._etag = None, None
            return None
        try:
            entry = parse(found.body, self._roots)
        except ValueError as error:
            raise FatalError(
                f"reading the journal {self._where}",
                f"{error}",
                "If a newer release wrote it, update this one. Else restore the object. Deleting it makes the "
                "connector go on from the offset committed in Kafka, and rows may then come twice",
            ) from None
        self._entry, self._etag = entry, found.etag
        return entry

    def _write(self, entry: JournalEntry) -> None:
        asked_at = self._clock()  # a process may be frozen while it waits for the answer
        try:
            self._etag = self._store.write(self._key, entry.to_body(), replaces=self._etag)
        except ChangedError:
            self._catch_up(self._store.read(self._key))
            raise RetryableError(f"writing the journal {self._where}", "an earlier write came through late") from None
        self._entry = entry
        self._looked_at = asked_at

    def _catch_up(self, found: Document | None) -> None:
        """Go on from a later version that is our own, from a write that got no answer and was not repeated.

        Raises:
            FencedError: it is not ours; our own objects that it revokes are deleted before.
        """
        if found is None:
            raise FencedError(f"{self._where} is gone: the table was deleted")
        try:
            entry = parse(found.body, self._roots)
        except ValueError as error:
            raise FencedError(f"{self._where} was overwritten by something else: {error}") from None
        if entry.owner == self._owner and (self._entry is None or entry.seq > self._entry.seq):
            self._entry, self._etag = entry, found.etag
            return
        if self._entry is not None:
            for key in {revoked.key for revoked in entry.revoked} & set(self._entry.objects):
                self._delete_if_possible(key)
        raise FencedError(f"{self._where} was taken over by another member of the consumer group")

    def _delete_if_possible(self, key: str) -> None:
        try:
            self._store.delete(key)
        except ConnectorError as error:  # of any kind: we are about to end this assignment anyway
            logger.info("%s; its new owner deletes it too", error)

    def _size_of(self, key: str) -> int | None:
        found = find(self._store, key)
        return found.size if found else None

    def _roll_back(self, entry: JournalEntry, missing: Sequence[str]) -> None:
        since = int(self._now())
        revoked = (*entry.revoked, *(Revoked(key=key, since=since) for key in entry.objects))
        self._write(self._settled(end=entry.start - 1, revoked=revoked))
        logger.info(
            "%s: batch %d of a former owner was not complete (%d of %d objects missing): undone, its rows come again",
            self._where,
            entry.batch,
            len(missing),
            len(entry.objects),
        )


def _missing(entry: JournalEntry, sizes: Iterable[int | None]) -> list[str]:
    """Keys of the objects of a batch that are not there as they should be; ``sizes`` is in the order of the keys."""
    wanted = {file.key: file.size for file in entry.files}
    return [
        key for key, size in zip(entry.objects, sizes, strict=True) if size is None or wanted.get(key, size) != size
    ]
