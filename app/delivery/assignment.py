"""An assignment: the partitions that Kafka assigns to this member, until Kafka revokes or another member claims them.

Each thread that works for an assignment has a reference to the ``Assignment``. After the assignment has ended, or its
log is fenced, no records of the assignment are written. The work of a late thread then has no effect.
"""

import queue
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from app.errors import ConnectorError
from app.journal.own_log import OwnLog
from app.journal.start_offset import Start
from app.model import Message, Rejected, Row, TopicPartition

_MOST_MARKS = 1_000  # about 100 kB for each partition
_offset = itemgetter(0)


class Uncommitted:
    """The time of a partition's first consumed record that is not committed. Only the consumer's thread calls methods.

    ``_marks`` contains the offset and the time of the first record of each poll. ``oldest`` is the timestamp of the
    first record that is not committed, in epoch seconds. After a commit in the middle of a poll, ``oldest`` is the
    timestamp of the poll's first record. Any thread may read ``oldest``.
    """

    __slots__ = ("_marks", "oldest")

    def __init__(self) -> None:
        self._marks: list[tuple[int, float]] = []
        self.oldest: float | None = None

    def consumed(self, offset: int, timestamp: int | None) -> None:
        """Note the first record of a poll, and its timestamp in ms. A record that is read again changes nothing.

        If the record has no timestamp, or the timestamp is in the future, the record's age is calculated from now.
        """
        if self._marks and offset <= self._marks[-1][0]:
            return
        now = time.time()
        self._marks.append((offset, now if timestamp is None else min(now, timestamp / 1000)))
        if len(self._marks) > _MOST_MARKS:
            del self._marks[1::2]  # the previous mark also covers these records, so their age is a little too high
        self.oldest = self._marks[0][1]

    def committed(self, following: int, *, is_all: bool) -> None:
        """Forget the committed records, which precede ``following``. ``is_all``: all consumed records are committed."""
        if is_all:
            self._marks.clear()
        else:
            del self._marks[: max(0, bisect_right(self._marks, following, key=_offset) - 1)]
        self.oldest = self._marks[0][1] if self._marks else None


class Partition:
    """One partition, and the offsets of the next records to hand over, write and commit."""

    __slots__ = ("copied", "is_claimed", "taken", "tp", "uncommitted", "written")

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self.is_claimed = False  # the consumer may read the partition
        self.taken = 0  # next record to hand to the pipeline; the consumer's thread sets it
        self.written = 0  # next record to write into lake and log; the pipeline's thread sets it
        self.copied = -1  # the offset committed to Kafka; the consumer's thread sets it
        self.uncommitted = Uncommitted()

    def begin(self, offset: int) -> None:
        """Begin to read at this offset. The partition is claimed, and the log contains all earlier records."""
        self.taken = self.written = offset
        self.is_claimed = True


@dataclass(frozen=True, slots=True)
class Piece:
    """Records of one partition, as messages or as rows."""

    tp: TopicPartition
    end: int  # the last offset read so far; -1 for late rows, made from the record of another partition
    messages: Sequence[Message] = ()
    rows: Sequence[Row] = ()
    rejected: Sequence[Rejected] = ()

    @property
    def records(self) -> int:
        return len(self.messages) + len(self.rows) + len(self.rejected)


@dataclass(frozen=True, slots=True)
class Portion:
    """A message from the consumer to the pipeline. It contains records, or the ``reason`` why the batch ends."""

    assignment: "Assignment"
    number: int  # number of the assignment's portions with records so far
    pieces: Sequence[Piece] = ()
    size: int = 0  # estimated memory in bytes
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Claimed:
    """A claimed partition, with the first offset to consume."""

    tp: TopicPartition
    start: Start


class Assignment:
    """One assignment. After the claims point to the assignment's log, the pipeline writes this log."""

    def __init__(self, tps: Iterable[TopicPartition], log: OwnLog, submit: Callable[[Portion], None]) -> None:
        self.partitions: Mapping[TopicPartition, Partition] = {tp: Partition(tp) for tp in tps}
        self.log = log
        self._submit = submit
        self._claims: queue.SimpleQueue[Claimed | ConnectorError] = queue.SimpleQueue()
        self._taken = 0  # number of portions; for the consumer's thread
        self._written = 0  # number of portions; for the pipeline's thread

    @property
    def is_over(self) -> bool:
        """Whether writing records of this assignment is forbidden."""
        return self.log.has_ended or self.log.fence is not None

    def end(self) -> None:
        self.log.end()

    # --- claims -----------------------------------------------------------------------------------------------------

    @property
    def claimed(self) -> Sequence[Partition]:
        return [each for each in self.partitions.values() if each.is_claimed]

    @property
    def unclaimed(self) -> frozenset[TopicPartition]:
        return frozenset(tp for tp, each in self.partitions.items() if not each.is_claimed)

    def claim_ended(self, *outcomes: Claimed | ConnectorError) -> None:
        """Note the results of claims. An error here cannot be corrected by retries. Any thread may call this method."""
        for outcome in outcomes:
            self._claims.put(outcome)

    def new_claims(self) -> list[Claimed]:
        """Return the claims that succeeded since the last call. Raise the error of a claim that has failed."""
        claims: list[Claimed] = []
        while True:
            try:
                outcome = self._claims.get_nowait()
            except queue.Empty:
                return claims
            if isinstance(outcome, ConnectorError):
                raise outcome
            claims.append(outcome)

    # --- records ----------------------------------------------------------------------------------------------------

    def take(self, pieces: Sequence[Piece], size: int) -> None:
        """Hand these records to the pipeline. ``size`` is the number of bytes in memory."""
        for piece in pieces:
            partition = self.partitions[piece.tp]
            partition.taken = max(partition.taken, piece.end + 1)
        self._taken += 1
        self._submit(Portion(self, self._taken, pieces, size))

    def end_batch(self, reason: str) -> None:
        """End the batch with the records taken so far."""
        self._submit(Portion(self, self._taken, reason=reason))

    def delivered(self, portion: int, ends: Mapping[TopicPartition, int]) -> None:
        """Note that lake and log contain all portions up to this number. Called by the pipeline's thread."""
        for tp, end in ends.items():
            partition = self.partitions[tp]
            partition.written = max(partition.written, end + 1)
        self._written = portion

    @property
    def is_delivered(self) -> bool:
        """Whether lake and log contain all records that the pipeline has received."""
        return self._written == self._taken

    def to_commit(self) -> list[tuple[Partition, int]]:
        """Return partitions, and their offsets to commit if newer than Kafka's. Called by the consumer's thread."""
        # Each ``written`` is read only once, because the pipeline's thread may change it.
        offsets = [(each, written) for each in self.claimed if (written := each.written) > each.copied]
        for partition, written in offsets:
            partition.uncommitted.committed(written, is_all=written >= partition.taken)
        return offsets

    @property
    def oldest_uncommitted(self) -> dict[TopicPartition, float]:
        """The timestamp of each partition's first record whose offset is not committed, in epoch seconds."""
        timestamps = ((tp, each.uncommitted.oldest) for tp, each in self.partitions.items())
        return {tp: oldest for tp, oldest in timestamps if oldest is not None}

    @property
    def fenced(self) -> dict[TopicPartition, str]:
        """The partitions that another member has claimed, and the reason of each."""
        fence = self.log.fence
        return dict.fromkeys(self.partitions, str(fence.error)) if fence else {}
