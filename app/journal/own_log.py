"""The log of this member's assignment. Other members write this log only to close it and to settle its batch.

The protocol has these steps. The store accepts a write only if the stored version is the version last read.

claim      closes and settles the logs of the former owners (``app.journal.takeover``). This log then inherits the end
           of each partition and the list of rolled-back objects. After that, the member points the partitions' claims
           to this log, and puts placeholders in place of these objects.
intend     before a batch's first upload: ``pending`` with the batch's files. The previous batch is then done.
advance    for records without rows: their end, before their offsets are committed. The previous batch is then done.
verify     after the uploads, before registering: if the stored version is not ours, another member has closed the log.
done       after registering, if the ``intend`` of the next batch has not recorded this already.

Dead letters and index files are uploaded before the batch's last data file. Therefore the data files show whether the
batch is complete. A batch without data files is complete if its dead letters exist.

If another member closes the log, the complete assignment is fenced. A fenced assignment registers nothing, and the
store refuses late uploads of the assignment (``app.journal.late_uploads``). If Kafka still assigns the partitions to
this member, it claims the partitions again. The next assignment inherits the list of rolled-back objects.
"""

import secrets
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import count
from typing import Any

from app.errors import FatalError, RetryableError
from app.journal.entry import RolledBack
from app.journal.journal import FencedError, Journal, LogClosedError
from app.journal.late_uploads import RolledBackObjects
from app.journal.log import AssignmentLog, Intent, Progress
from app.model import Mark, TopicPartition
from app.storage.base import ChangedError
from app.storage.document import UnreadableError

# With 64 bits, the probability of two equal names in a million processes is 1 in 37 million. With 32 bits for each
# assignment, two of 80,000 names would probably be equal. A counter makes names unique within a process.
_PROCESS = secrets.token_hex(8)
_NUMBERS = count()


def new_token() -> str:
    """Return a unique name for an assignment: 24 hex digits. The first 16 digits are equal in one process."""
    return f"{_PROCESS}{next(_NUMBERS):08x}"


@dataclass(frozen=True, slots=True)
class Fence:
    """The error after which the member must not write for an assignment. ``since`` is its time in monotonic seconds."""

    error: FencedError
    since: float


class OwnLog:
    """Writes the log of one assignment. Thread-safe.

    After a ``RetryableError``, repeat the call or make a different call. The next call finds out whether the write
    succeeded. Each method that writes raises ``FencedError`` after another member has closed the log, or after the
    assignment has ended. If another member has closed the log, ``on_fenced`` is called once.
    """

    def __init__(
        self,
        journal: Journal,
        token: str,
        *,
        fill: Callable[[Collection[str]], None],
        on_fenced: "Callable[[OwnLog], None]" = lambda _: None,
        parallel_map: Callable[[Callable[[str], Any], Iterable[str]], Iterable[Any]] = map,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        new_lock: Callable[[], AbstractContextManager[Any]] = threading.RLock,
    ) -> None:
        self._journal = journal
        self._document = journal.log(token)
        self.token = token
        self._on_fenced = on_fenced
        self._clock = clock
        self._verified_at = -float("inf")
        self._announced: frozenset[str] = frozenset()  # keys of the last batch's objects
        self._registered = 0  # number of the last registered batch
        self._lock = new_lock()
        self._rolled_back = RolledBackObjects(journal.store, fill, parallel_map, now)
        self.fence: Fence | None = None
        self.has_ended = False

    @property
    def log(self) -> AssignmentLog | None:
        """The version of the log that this object last read or wrote; ``None`` before the first version."""
        return self._document.current

    @property
    def marks(self) -> Sequence[Mark]:
        """The end of each partition of the announced batch after the batch is in the lake."""
        return self._own.marks

    def end(self) -> None:
        """Refuse further writes, because the assignment has ended. A write in progress may still continue."""
        self.has_ended = True

    def check_open(self) -> None:
        """Raise ``FencedError`` if this log may not be written any more. The store is not queried."""
        if self.fence is not None:
            raise self.fence.error
        if self.has_ended:
            raise FencedError("the assignment has ended")

    # --- at the claim -----------------------------------------------------------------------------------------------

    def take_over(self, partitions: Iterable[Progress], revoked: Iterable[RolledBack]) -> None:
        """Write the ends of these partitions and the rolled-back objects, before the claims point to this log."""
        with self._lock:
            self.check_open()
            log = self.log or AssignmentLog(seq=1, owner=self.token, writer=self.token)
            by_tp = {each.tp: each for each in log.partitions} | {each.tp: each for each in partitions}
            listed = {item.key: item for item in (*revoked, *log.revoked)}
            inherited = {"partitions": tuple(by_tp.values()), "revoked": tuple(listed.values())}
            if self.log is None:
                self._write(log.model_copy(update=inherited))
            elif any(getattr(log, name) != value for name, value in inherited.items()):
                self._write(log.changed(**inherited))

    def remove_rolled_back(self) -> None:
        """Remove the rows of rolled-back objects, after all claims point to this log and before records are read."""
        with self._lock:
            listed = self._own.revoked
        self._rolled_back.remove(listed)

    # --- batch by batch ---------------------------------------------------------------------------------------------

    def intend(self, intent: Intent) -> None:
        """Announce a batch in the log, before the batch's first upload."""
        with self._lock:
            log = self._own
            if log.state == "pending" and log.batch == intent.batch:
                self._announced = frozenset(log.objects)
                return
            claimed = {each.tp for each in log.partitions}
            if foreign := {*(each.tp for each in intent.offsets), *intent.ends} - claimed:
                cause = f"it has rows of {', '.join(map(str, sorted(foreign)))}, which the assignment has not claimed"
                raise FatalError("announcing a batch", cause, "No file was uploaded; please report this as a bug")
            pending = log.pending(intent)
            self._write(pending.model_copy(update={"revoked": self._rolled_back.remaining(log.revoked)}))
            self._announced = frozenset(pending.objects)

    def verify(self, *, fresh_seconds: float = 0.0) -> None:
        """Check that the stored log is our version. If the last check is newer than ``fresh_seconds``, do nothing."""
        with self._lock:
            self.check_open()
            asked_at = self._clock()
            if asked_at - self._verified_at < fresh_seconds:
                return
            if not self._document.is_unchanged():
                self._catch_up()
            self._verified_at = asked_at

    def registered(self) -> None:
        """Note that the announced batch is in the lake and registered, even if the assignment has just ended."""
        if self.log is not None:
            self._registered = self.log.batch

    def done(self) -> None:
        """Write to the log that the registered batch is in the lake, unless the log already says so."""
        with self._lock:
            log = self._own
            if log.state == "pending" and log.batch == self._registered:
                self._write(log.done().model_copy(update={"revoked": self._rolled_back.remaining(log.revoked)}))

    def advance(self, ends: Mapping[TopicPartition, int]) -> None:
        """Write to the log that all rows up to these offsets, and the registered batch, are in the lake."""
        with self._lock:
            log = self._own
            if log.state == "pending" and log.batch != self._registered:
                doing = f"writing the ends of partitions into the journal {self._document.where}"
                raise FatalError(doing, "another batch is in progress", "Please report this as a bug")
            advanced = log.done(ends)
            if log.state != "done" or advanced.partitions != log.partitions:
                self._write(advanced.model_copy(update={"revoked": self._rolled_back.remaining(log.revoked)}))

    def delete_late_uploads(self) -> None:
        """Delete late uploads of the last batch, which was rolled back, if no placeholder refused these uploads.

        Such uploads exist if the machine slept for an hour during an upload. Call this after all uploads have ended.
        """
        log = self._journal.log(self.token).read()
        for item in log.revoked if log else ():
            if item.key in self._announced and self._rolled_back.may_be_back(item):
                self._journal.store.delete(item.key)

    def sweep(self, *, is_last: bool = False) -> None:
        """Delete the rolled-back objects that are due. ``is_last`` is true if the process ends."""
        with self._lock:
            listed = self.log.revoked if self.log else ()
        self._rolled_back.sweep(listed, is_last=is_last)  # outside of the lock, because the sweep may be slow

    # --- inside -----------------------------------------------------------------------------------------------------

    @property
    def _own(self) -> AssignmentLog:
        self.check_open()
        assert self.log is not None, "take_over() comes first"  # noqa: S101
        return self.log

    def _write(self, log: AssignmentLog) -> None:
        asked_at = self._clock()  # a process may be frozen while it waits for the answer
        try:
            self._document.write(log)
        except ChangedError:
            self._catch_up()
            raise RetryableError(
                f"writing the journal {self._document.where}", "an earlier write arrived late"
            ) from None
        self._verified_at = asked_at

    def _catch_up(self) -> None:
        """Adopt a later version that this member wrote without receiving an answer. Other versions are a fence."""
        before = self.log
        try:
            log = self._document.read()
        except UnreadableError as error:  # a newer release may have closed the log: this member is fenced
            raise self._fence(f"was overwritten by something else: {error.cause}") from None
        if log is None:
            raise self._fence("is missing: the table was deleted")
        if log.writer == self.token and not log.closed and (before is None or log.seq > before.seq):
            return
        if not log.closed:  # no other member writes an open version: somebody restored a version, perhaps from a backup
            raise self._fence("was overwritten by something else")
        raise self._fence("was closed by another member of the consumer group", LogClosedError)

    def _fence(self, why: str, kind: type[FencedError] = FencedError) -> FencedError:
        """Refuse all writes from now, because another member wrote the stored version. Return the error."""
        error = kind(f"{self._document.where} {why}")
        self.fence = Fence(error, self._clock())
        self._on_fenced(self)
        return error
