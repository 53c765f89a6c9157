"""Exactly once: the journal of one topic-partition, written by one assignment.

The protocol. Every write is conditional on the version last read and has the assignment's token:

claim      at assignment, before the first row: write the entry with our token and its state unchanged. Only then check
           the files: a former owner that is not fenced yet may still finish its uploads.
recover    a pending batch of the former owner. If all its data files exist, roll forward: write ``kept``, and only then
           register the files again and write ``done``. If some are missing, roll back: write ``done`` up to its start,
           with its objects on the list ``revoked``, and only then delete them. If some are missing and Kafka no longer
           has all of the batch's rows, write ``kept`` with the files that exist. Each later claim follows the written
           decision, whatever files it finds.
intend     before the first upload of a batch: ``pending`` with its files.
verify     after the uploads and before registering: if the version is not ours, another assignment owns the partition.
done       after registering. The next ``intend`` implies it.

A batch's dead letters and index files are uploaded before its last data file, so the data files alone show whether it
is complete. A batch without data files is complete if its dead letters exist.

An assignment whose entry has another owner is fenced. It registers nothing, and deletes only those of its objects that
the new owner has rolled back. An upload of a fenced member may land after they were deleted. So every owner deletes the
objects of the list ``revoked`` repeatedly for a day. At its claim it deletes those that were never deleted, and the
latest.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from app.journal.entry import JournaledFile, JournalEntry, RolledBack
from app.journal.entry_store import EntryStore, FencedError
from app.journal.rolled_back import RolledBackObjects
from app.storage.base import ObjectStore, find

logger = logging.getLogger(__name__)

_CLAIMS_TRIED = 5
_NAMED = 20  # keys in a line of the log


@dataclass(frozen=True, slots=True)
class Intent:
    """The objects that a batch will store for one topic-partition.

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

    Any method may raise the store's errors. After a ``RetryableError`` the same call, or another one first, can be
    made: it finds out whether the write without an answer succeeded. Safe from several threads.

    Args:
        store: connected.
        key: of the entry.
        owner: the assignment's token.
        roots: the prefixes that keys of the table's objects have; an entry that names others is refused.
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
        self._stored = EntryStore(store, key, owner, roots, clock)
        self._store = store
        self._owner = owner
        self._each = each
        self._clock = clock
        self._now = now
        self._lock = threading.RLock()
        self._rolled_back = RolledBackObjects(store.delete, each, now)

    @property
    def entry(self) -> JournalEntry | None:
        """The version that was last read or written here; ``None`` without one."""
        return self._stored.entry

    @property
    def seconds_since_verified(self) -> float:
        """Seconds since the entry was last known to be ours."""
        return self._clock() - self._stored.known_at

    # --- at assignment ----------------------------------------------------------------------------------------------

    def claim(
        self, is_wanted: Callable[[], bool], check: Callable[[JournalEntry], None] = lambda _: None
    ) -> JournalEntry | None:
        """Write our token into the entry and leave the rest unchanged.

        Args:
            is_wanted: whether the assignment still is current; a claim after its end would fence the next one.
            check: raises if the entry must not be claimed; its owner then is not fenced.

        Returns:
            The entry as it was; ``None`` if there is none yet, and then nothing is written: see ``begin``.

        Raises:
            FencedError: the assignment ended, or other members claim the entry at the same time.
            FatalError: the entry cannot be understood.
        """
        with self._lock:
            for _ in range(_CLAIMS_TRIED):
                found = self._stored.read()
                if not is_wanted():
                    raise FencedError("the assignment ended before its journal was claimed")
                if found is None:
                    return None
                check(found)
                try:
                    self._stored.write(found.changed(owner=self._owner))
                except FencedError:
                    continue
                return found
            raise FencedError(f"others write {self._stored.where} at the same time")

    def begin(self, end: int, topic_id: str, cluster_id: str = "", *, marks_commits: bool = True) -> None:
        """Write ``done`` up to ``end``: for a partition without an entry, or to go on from another offset.

        Args:
            end: the last offset that is in the table or gives no row.
            topic_id: of the topic of these offsets; empty if it is not known.
            cluster_id: of the cluster of these offsets; empty if it is not known.
            marks_commits: whether from now on an offset beyond ``end`` without the connector's mark is surely of
                another program; once true in an entry, it stays true.

        Raises:
            FencedError: another assignment has written the entry.
        """
        with self._lock:
            entry = self._stored.entry
            if entry is None:
                first = JournalEntry(
                    seq=1,
                    owner=self._owner,
                    batch=-1,
                    state="done",
                    start=end + 1,
                    end=end,
                    topic_id=topic_id,
                    cluster_id=cluster_id,
                    marks_commits=marks_commits,
                )
                self._stored.write(first)
                return
            goes_on = (entry.state, entry.end) == ("done", end)
            facts = {  # an unknown id changes nothing
                "topic_id": topic_id or (entry.topic_id if goes_on else ""),
                "cluster_id": cluster_id or entry.cluster_id,
                "marks_commits": marks_commits or entry.marks_commits,
            }
            if not goes_on or any(getattr(entry, name) != value for name, value in facts.items()):
                self._stored.write(self._without_batch(start=end + 1, end=end, **facts))

    def recover(
        self,
        register: Callable[[Sequence[JournaledFile]], None],
        left_in_kafka: Callable[[JournalEntry], range],
    ) -> None:
        """Roll the former owner's pending batch forward or back, and delete the objects that were rolled back before.

        After an error the entry must be claimed again. The write that rolls back may have succeeded, or succeed later,
        and the missing files may exist by then: a second decision could be another one.

        Args:
            register: registers files in the catalog; safe to repeat.
            left_in_kafka: asks which offsets of a pending batch Kafka still has; called only before a roll back.
        """
        with self._lock:
            if self._claimed.state == "pending":
                self._decide(left_in_kafka)
            if self._claimed.state == "kept":
                register(self._claimed.files)
                self._stored.write(self._without_batch())
            listed = self._claimed.revoked
        self._rolled_back.delete(self._rolled_back.due_at_claim(listed))

    def switch_off(self) -> None:
        """Write ``off``: from now on, rows are written without the journal."""
        with self._lock:
            if self._claimed.state != "off":
                self._stored.write(self._without_batch(state="off"))

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
            self._stored.write(
                entry.changed(
                    batch=intent.batch,
                    state="pending",
                    start=entry.end + 1,
                    end=max(entry.end, intent.end),
                    files=intent.files,
                    also=intent.also,
                    also_first=True,
                    revoked=self._rolled_back.still(self._claimed.revoked),
                )
            )

    def verify_ownership(self) -> None:
        """Check that the stored entry is our version.

        Raises:
            FencedError: it is not.
        """
        with self._lock:
            self._stored.verify_ownership()

    def done(self, batch: int) -> None:
        """Write that this batch is in the lake and registered, unless the next one's intent already says it.

        Raises:
            FencedError: the entry is not ours any more.
        """
        with self._lock:
            if (self._claimed.state, self._claimed.batch) == ("pending", batch):
                self._stored.write(self._without_batch())

    def advance(self, end: int) -> None:
        """Write that all rows up to offset ``end`` are in the lake.

        Raises:
            FencedError: the entry is not ours any more.
        """
        with self._lock:
            if self._claimed.state == "done" and end > self._claimed.end:
                self._stored.write(self._without_batch(start=end + 1, end=end))

    def delete_rolled_back(self) -> None:
        """Delete again the rolled-back objects that are due: a late upload may have brought them back."""
        with self._lock:
            listed = self._claimed.revoked
        self._rolled_back.delete(self._rolled_back.due(listed))  # outside of the lock, for it may take long

    # --- inside -----------------------------------------------------------------------------------------------------

    @property
    def _claimed(self) -> JournalEntry:
        assert self._stored.entry is not None, "claim() or begin() comes first"  # noqa: S101
        return self._stored.entry

    def _without_batch(self, **values: object) -> JournalEntry:
        """The next version: without a batch, and with these values."""
        listed = self._rolled_back.still(self._claimed.revoked)
        without = {"state": "done", "files": (), "also": (), "also_first": False, "revoked": listed}
        return self._claimed.changed(**{**without, **values})

    def _size_of(self, key: str) -> int | None:
        found = find(self._store, key)
        return found.size if found else None

    def _decide(self, left_in_kafka: Callable[[JournalEntry], range]) -> None:
        """Write whether the pending batch is kept or rolled back, before anything is registered or deleted."""
        entry = self._claimed
        missing = self._missing(entry, entry.deciding)
        if not missing:
            self._stored.write(entry.changed(state="kept", also=()))
            logger.info("%s: batch %d of a former owner was complete: kept", self._stored.where, entry.batch)
            return
        left = left_in_kafka(entry)
        if len(left) < entry.end + 1 - entry.start and self._keep_what_is_there(entry, left):
            return
        self._roll_back(entry, missing)

    def _keep_what_is_there(self, entry: JournalEntry, left: range) -> bool:
        """Keep the objects of an incomplete batch if Kafka no longer has all of its records.

        Returns:
            Whether there are any. Dead letters alone are kept only if Kafka has none of the batch's records.
        """
        missing = self._missing(entry, entry.objects)
        files = tuple(file for file in entry.files if file.key not in missing)
        if not files and (left or len(missing) == len(entry.objects)):
            return False
        self._stored.write(entry.changed(state="kept", files=files, also=()))
        rows = sum(file.rows for file in entry.files if file.key in missing)
        logger.error(
            "%s: batch %d of a former owner (offsets %d to %d) is not complete, and Kafka has %s of its records any "
            "more: what is there is kept, %d of %d objects with %s rows are missing: %s. Bring them back if there is a "
            "copy, and raise the topic's retention",
            self._stored.where,
            entry.batch,
            entry.start,
            entry.end,
            f"only offsets {left[0]} to {left[-1]}" if left else "none",
            len(missing),
            len(entry.objects),
            f"{rows:,}",
            _listed(missing),
        )
        return True

    def _missing(self, entry: JournalEntry, keys: Sequence[str]) -> list[str]:
        """Keys of those objects that do not exist or have another size."""
        wanted = {file.key: file.size for file in entry.files}
        sizes = self._each(self._size_of, keys)
        return [key for key, size in zip(keys, sizes, strict=True) if size is None or wanted.get(key, size) != size]

    def _roll_back(self, entry: JournalEntry, missing: Sequence[str]) -> None:
        since = int(self._now())
        listed = (*entry.revoked, *(RolledBack(key=key, since=since) for key in entry.objects))
        self._stored.write(self._without_batch(end=entry.start - 1, revoked=listed))
        logger.info(
            "%s: batch %d of a former owner was not complete (%d of %d objects missing): undone, its rows come again",
            self._stored.where,
            entry.batch,
            len(missing),
            len(entry.objects),
        )


def _listed(keys: Sequence[str]) -> str:
    more = len(keys) - _NAMED
    return ", ".join(keys[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")
