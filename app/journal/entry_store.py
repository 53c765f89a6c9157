"""Compare-and-set of a journal's entry: reads its JSON object, and replaces it only if nobody else has since.

The condition of each write is the ETag of the version last read. A write that meets another version raises
``FencedError``, unless that version is the owner's own.
"""

import logging
from collections.abc import Callable

from app.errors import ConnectorError, FatalError, RetryableError
from app.journal.entry import JournalEntry, parse
from app.storage.base import ChangedError, Document, ObjectStore

logger = logging.getLogger(__name__)


class FencedError(Exception):
    """The stored entry is not our last version: another assignment owns the partition, or the table was deleted."""


def read_entry(store: ObjectStore, key: str, roots: tuple[str, ...]) -> tuple[JournalEntry, str] | None:
    """Reads an entry of any owner, with the ETag of its version; ``None`` if there is none.

    Raises:
        FatalError: it cannot be parsed.
    """
    found = store.read(key)
    if found is None:
        return None
    try:
        return parse(found.body, roots), found.etag
    except ValueError as error:
        raise FatalError(
            f"reading the journal {store.uri}/{key}",
            f"{error}",
            "If a newer release wrote it, update this one. Else restore the object. Deleting it makes the "
            "connector go on from the offset committed in Kafka, and rows may then come twice",
        ) from None


class EntryStore:
    """One entry in the store. For one thread at a time.

    Any method may raise the store's errors. If a write got no answer, the next call finds out whether it succeeded.

    Args:
        store: connected.
        key: of the object.
        owner: the assignment's token.
        roots: the prefixes that keys of the table's objects have; an entry that names others is refused.
        clock: monotonic seconds.

    Attributes:
        entry: the version that was last read or written here; ``None`` without one.
        known_at: when that was requested, in seconds of the clock.
    """

    def __init__(
        self, store: ObjectStore, key: str, owner: str, roots: tuple[str, ...], clock: Callable[[], float]
    ) -> None:
        self._store = store
        self._key = key
        self._owner = owner
        self._roots = roots
        self._clock = clock
        self._etag: str | None = None
        self.entry: JournalEntry | None = None
        self.known_at = -float("inf")

    @property
    def where(self) -> str:
        """Its address, for messages."""
        return f"{self._store.uri}/{self._key}"

    def read(self) -> JournalEntry | None:
        """Read the entry of any owner; ``None`` if there is none.

        Raises:
            FatalError: it cannot be parsed.
        """
        self.entry, self._etag = read_entry(self._store, self._key, self._roots) or (None, None)
        return self.entry

    def write(self, entry: JournalEntry) -> None:
        """Replace the stored entry, if it is the version last read here; the compare-and-set of the journal.

        Raises:
            FencedError: another assignment has replaced or deleted it.
            RetryableError: it is a later version of our own, from a write that got no answer.
        """
        asked_at = self._clock()  # a process may be frozen while it waits for the answer
        try:
            self._etag = self._store.write(self._key, entry.to_body(), replaces=self._etag)
        except ChangedError:
            self._catch_up(self._store.read(self._key))
            raise RetryableError(f"writing the journal {self.where}", "an earlier write came through late") from None
        self.entry = entry
        self.known_at = asked_at

    def verify_ownership(self) -> None:
        """Check that the stored entry is still ours.

        Raises:
            FencedError: it is not.
        """
        asked_at = self._clock()
        found = self._store.read(self._key)
        if found is None or found.etag != self._etag:
            self._catch_up(found)
        self.known_at = asked_at

    def _catch_up(self, found: Document | None) -> None:
        """Take over a later version of our own, from a write that got no answer.

        Raises:
            FencedError: the version is not ours. Deletes those of our objects that it rolls back first.
        """
        if found is None:
            raise FencedError(f"{self.where} is gone: the table was deleted")
        try:
            entry = parse(found.body, self._roots)
        except ValueError as error:
            raise FencedError(f"{self.where} was overwritten by something else: {error}") from None
        if entry.owner == self._owner and (self.entry is None or entry.seq > self.entry.seq):
            self.entry, self._etag = entry, found.etag
            return
        if self.entry is not None:
            rolled_back = {item.key for item in entry.revoked}
            for key in filter(rolled_back.__contains__, self.entry.objects):
                self._delete_if_possible(key)
        raise FencedError(f"{self.where} was taken over by another member of the consumer group")

    def _delete_if_possible(self, key: str) -> None:
        try:
            self._store.delete(key)
        except ConnectorError as error:  # of any kind: we are about to end this assignment anyway
            logger.info("%s; its new owner deletes it too", error)
