"""Exactly once: the log of the member's own assignment. Other members write it only to close and settle it.

The protocol. Every write is conditional on the version last read.

claim      see ``app.journal.takeover``: the logs of the former owners are closed and settled. Then this log takes over
           how far each partition is written, and which objects were rolled back. Only then the claims of the partitions
           point to it, and placeholders take the names of these objects.
intend     before the first upload of a batch: ``pending`` with its files. It implies that the batch before is done.
advance    where records gave no row: how far they are read, before their offsets are committed. It implies the same.
verify     after the uploads and before registering: if the version is not ours, another assignment has closed the log.
done       after registering, where no next batch's ``intend`` says it.

A batch's dead letters and index files are uploaded before its last data file, so the data files alone show whether it
is complete. A batch without data files is complete if its dead letters exist.

An assignment whose log was closed is fenced, with all its partitions: it registers nothing, and the store refuses its
late uploads (``app.journal.late_uploads``). If Kafka still assigns the partitions to its member, that member claims
them again as a new assignment. The next assignment inherits the list of rolled-back objects.
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

# Of 64 bits, two are equal among a million processes with a probability of 1 in 37 million; of 32 bits for each
# assignment, two would probably be among 80,000. Within a process they are counted, and differ for certain.
_PROCESS = secrets.token_hex(8)
_NUMBERS = count()


def new_token() -> str:
    """A unique name of an assignment: 24 hex digits, of which the first 16 are the same within a process."""
    return f"{_PROCESS}{next(_NUMBERS):08x}"


@dataclass(frozen=True, slots=True)
class Fence:
    """Why an assignment may not be written any more; ``since`` in monotonic seconds."""

    error: FencedError
    since: float


class OwnLog:
    """Writes the log of one assignment.

    After a ``RetryableError`` the same call, or another one first, can be made: it finds out whether the write without
    an answer succeeded. Any method that writes raises ``FencedError`` once another member has closed the log, or the
    assignment has ended; ``on_fenced`` is called once, in the first case. Safe from several threads.
    """

    def __init__(
        self,
        journal: Journal,
        token: str,
        *,
        fill: Callable[[Collection[str]], None],
        on_fenced: "Callable[[OwnLog], None]" = lambda _: None,
        each: Callable[[Callable[[str], Any], Iterable[str]], Iterable[Any]] = map,
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
        self._announced: frozenset[str] = frozenset()  # objects of the last batch
        self._registered = 0  # number of the last batch that is
        self._lock = new_lock()
        self._rolled_back = RolledBackObjects(journal.store, fill, each, now)
        self.fence: Fence | None = None
        self.has_ended = False

    @property
    def log(self) -> AssignmentLog | None:
        """The version that was last read or written here; ``None`` before the first."""
        return self._document.current

    @property
    def marks(self) -> Sequence[Mark]:
        """How far the partitions of the announced batch are once it is in the lake."""
        return self._own.marks

    def end(self) -> None:
        """Write nothing any more: the assignment has ended. Does not wait for a write that is under way."""
        self.has_ended = True

    def check_open(self) -> None:
        """Raise ``FencedError`` if nothing may be written any more, as far as is known here."""
        if self.fence is not None:
            raise self.fence.error
        if self.has_ended:
            raise FencedError("the assignment has ended")

    # --- at the claim -----------------------------------------------------------------------------------------------

    def take_over(self, partitions: Iterable[Progress], revoked: Iterable[RolledBack]) -> None:
        """Take over how far these partitions are written, and what was rolled back, before their claims point here."""
        with self._lock:
            self.check_open()
            log = self.log or AssignmentLog(seq=1, owner=self.token, writer=self.token)
            by_tp = {each.tp: each for each in log.partitions} | {each.tp: each for each in partitions}
            listed = {item.key: item for item in (*revoked, *log.revoked)}
            taken = {"partitions": tuple(by_tp.values()), "revoked": tuple(listed.values())}
            if self.log is None:
                self._write(log.model_copy(update=taken))
            elif any(getattr(log, name) != value for name, value in taken.items()):
                self._write(log.changed(**taken))

    def remove_rolled_back(self) -> None:
        """Remove the rows of rolled-back objects, once all claims point here and before anything is read."""
        with self._lock:
            listed = self._own.revoked
        self._rolled_back.remove(listed)

    # --- batch by batch ---------------------------------------------------------------------------------------------

    def intend(self, intent: Intent) -> None:
        """Announce a batch before its first upload."""
        with self._lock:
            log = self._own
            if log.state == "pending" and log.batch == intent.batch:
                self._announced = frozenset(log.objects)
                return
            claimed = {each.tp for each in log.partitions}
            if foreign := {*(each.tp for each in intent.offsets), *intent.ends} - claimed:
                cause = f"it has rows of {', '.join(map(str, sorted(foreign)))}, which the assignment has not claimed"
                raise FatalError("announcing a batch", cause, "Nothing of it was uploaded; please report this as a bug")
            still = self._rolled_back.still(log.revoked)
            pending = log.pending(intent)
            self._write(pending.model_copy(update={"revoked": still}))
            self._announced = frozenset(pending.objects)

    def verify(self, *, fresh_seconds: float = 0.0) -> None:
        """Check that the stored log is our version, unless that was known so many seconds ago or later."""
        with self._lock:
            self.check_open()
            asked_at = self._clock()
            if asked_at - self._verified_at < fresh_seconds:
                return
            if not self._document.is_unchanged():
                self._catch_up()
            self._verified_at = asked_at

    def registered(self) -> None:
        """Note that the announced batch is in the lake and registered, also where the assignment has just ended."""
        if self.log is not None:
            self._registered = self.log.batch

    def done(self) -> None:
        """Write that the registered batch is in the lake, unless that is written; the next ``intend`` says it too."""
        with self._lock:
            log = self._own
            if log.state == "pending" and log.batch == self._registered:
                self._write(log.done().model_copy(update={"revoked": self._rolled_back.still(log.revoked)}))

    def advance(self, ends: Mapping[TopicPartition, int]) -> None:
        """Write that all rows up to these offsets are in the lake, and so is the registered batch, if there is one."""
        with self._lock:
            log = self._own
            if log.state == "pending" and log.batch != self._registered:
                doing = f"writing into the journal {self._document.where} how far partitions are read"
                raise FatalError(doing, "another batch is on its way", "Please report this as a bug")
            advanced = log.done(ends)
            if log.state != "done" or advanced.partitions != log.partitions:
                self._write(advanced.model_copy(update={"revoked": self._rolled_back.still(log.revoked)}))

    def delete_late_uploads(self) -> None:
        """Delete those of the last batch, which was rolled back, where no placeholder refused them any more.

        This happens after the machine slept for an hour amid an upload. Called once all uploads of the batch ended.
        """
        found = self._journal.log(self.token).read()
        for item in found.revoked if found else ():
            if item.key in self._announced and self._rolled_back.may_be_back(item):
                self._journal.store.delete(item.key)

    def sweep(self, *, is_last: bool = False) -> None:
        """Delete the rolled-back objects that are due; ``is_last`` when the process ends."""
        with self._lock:
            listed = self.log.revoked if self.log else ()
        self._rolled_back.sweep(listed, is_last=is_last)  # outside of the lock, for it may take long

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
                f"writing the journal {self._document.where}", "an earlier write came through late"
            ) from None
        self._verified_at = asked_at

    def _catch_up(self) -> None:
        """Take over a later version of our own, from a write that got no answer; any other one fences."""
        before = self.log
        try:
            found = self._document.read()
        except UnreadableError as error:  # a newer release may have closed it: this member ends like any fenced one
            raise self._fenced(f"was overwritten by something else: {error.cause}") from None
        if found is None:
            raise self._fenced("is gone: the table was deleted")
        if found.writer == self.token and not found.closed and (before is None or found.seq > before.seq):
            return
        if not found.closed:  # nobody else writes an open version: an older one was brought back, as from a backup
            raise self._fenced("was overwritten by something else")
        raise self._fenced("was closed by another member of the consumer group", LogClosedError)

    def _fenced(self, why: str, kind: type[FencedError] = FencedError) -> FencedError:
        """Refuse everything from now on: the version last read is another member's."""
        error = kind(f"{self._document.where} {why}")
        self.fence = Fence(error, self._clock())
        self._on_fenced(self)
        return error
