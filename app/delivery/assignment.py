"""An assignment: the partitions that Kafka has given to this member, until they are taken away or another claims them.

Who works for an assignment holds the object. After its end, or once its log is fenced, nothing of it is written: a
thread that comes late works for an object that nobody looks at any more.
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

_MOST_MARKS = 1_000  # some 100 kB for each partition
_offset = itemgetter(0)


class Uncommitted:
    """How old the first record of a partition is that is consumed and not committed. For the consumer's thread.

    It keeps a mark for each poll: the offset and the time of its first record. ``oldest`` says when the first record
    came into being that is not committed, in epoch seconds; after a commit in the middle of a poll it is the first of
    that poll. Safe to read from any thread.
    """

    __slots__ = ("_marks", "oldest")

    def __init__(self) -> None:
        self._marks: list[tuple[int, float]] = []
        self.oldest: float | None = None

    def consumed(self, offset: int, timestamp: int | None) -> None:
        """Note the first record of a poll, with its timestamp in ms; one that is read again changes nothing.

        Without a timestamp, and where a producer's clock is ahead, the record counts from now on.
        """
        if self._marks and offset <= self._marks[-1][0]:
            return
        now = time.time()
        self._marks.append((offset, now if timestamp is None else min(now, timestamp / 1000)))
        if len(self._marks) > _MOST_MARKS:
            del self._marks[1::2]  # the mark before stands for these records too: they count as a little older
        self.oldest = self._marks[0][1]

    def committed(self, following: int, *, is_all: bool) -> None:
        """Forget what is committed, up to before ``following``; ``is_all``: nothing was consumed from there on."""
        if is_all:
            self._marks.clear()
        else:
            del self._marks[: max(0, bisect_right(self._marks, following, key=_offset) - 1)]
        self.oldest = self._marks[0][1] if self._marks else None


class Partition:
    """One partition, and how far it is. Each offset is that of the next record."""

    __slots__ = ("copied", "is_claimed", "taken", "tp", "uncommitted", "written")

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self.is_claimed = False  # it may be read
        self.taken = 0  # for the pipeline, by the consumer's thread
        self.written = 0  # into lake and log, by the pipeline's thread
        self.copied = -1  # to Kafka, by the consumer's thread
        self.uncommitted = Uncommitted()

    def begin(self, offset: int) -> None:
        """Read from this offset on: the partition is claimed, and the log ends before it."""
        self.taken = self.written = offset
        self.is_claimed = True


@dataclass(frozen=True, slots=True)
class Piece:
    """Records of one partition, as messages or as rows."""

    tp: TopicPartition
    end: int  # the last offset that was read by then; -1 where the rows came late, with another partition's
    messages: Sequence[Message] = ()
    rows: Sequence[Row] = ()
    rejected: Sequence[Rejected] = ()

    @property
    def records(self) -> int:
        return len(self.messages) + len(self.rows) + len(self.rejected)


@dataclass(frozen=True, slots=True)
class Portion:
    """What goes from the consumer to the pipeline: records, or the ``reason`` to end the batch."""

    assignment: "Assignment"
    number: int  # counts those with records in the assignment
    pieces: Sequence[Piece] = ()
    size: int = 0  # estimated memory in bytes
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Claimed:
    """A partition that is ours, with the first offset to consume."""

    tp: TopicPartition
    start: Start


class Assignment:
    """One assignment; the pipeline writes its log, once the claims name it."""

    def __init__(self, tps: Iterable[TopicPartition], log: OwnLog, submit: Callable[[Portion], None]) -> None:
        self.partitions: Mapping[TopicPartition, Partition] = {tp: Partition(tp) for tp in tps}
        self.log = log
        self._submit = submit
        self._claims: queue.SimpleQueue[Claimed | ConnectorError] = queue.SimpleQueue()
        self._taken = 0  # portions; of the consumer's thread
        self._written = 0  # portions; of the pipeline's thread

    @property
    def is_over(self) -> bool:
        """Whether nothing of it may be written any more."""
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
        """Note what came of claims; an error is one that no retry corrects. From any thread."""
        for outcome in outcomes:
            self._claims.put(outcome)

    def new_claims(self) -> list[Claimed]:
        """The claims that have succeeded since the last call; raises the error of one that no retry corrects."""
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
        """Hand these records to the pipeline; ``size`` in bytes of memory."""
        for piece in pieces:
            partition = self.partitions[piece.tp]
            partition.taken = max(partition.taken, piece.end + 1)
        self._taken += 1
        self._submit(Portion(self, self._taken, pieces, size))

    def end_batch(self, reason: str) -> None:
        """End the batch with what was taken by now."""
        self._submit(Portion(self, self._taken, reason=reason))

    def delivered(self, portion: int, ends: Mapping[TopicPartition, int]) -> None:
        """Note that all up to this portion is in lake and log, and to which offsets. For the pipeline's thread."""
        for tp, end in ends.items():
            partition = self.partitions[tp]
            partition.written = max(partition.written, end + 1)
        self._written = portion

    @property
    def is_delivered(self) -> bool:
        """Whether all that was taken is in lake and log."""
        return self._written == self._taken

    def to_commit(self) -> list[tuple[Partition, int]]:
        """The partitions whose offset in Kafka is behind, with those to commit. For the consumer's thread."""
        news = [(each, written) for each in self.claimed if (written := each.written) > each.copied]
        for each, written in news:  # meanwhile the pipeline goes on
            each.uncommitted.committed(written, is_all=written >= each.taken)
        return news

    @property
    def oldest_uncommitted(self) -> dict[TopicPartition, float]:
        """When the first record came into being that is taken and not in the lake, in epoch seconds."""
        known = ((tp, each.uncommitted.oldest) for tp, each in self.partitions.items())
        return {tp: oldest for tp, oldest in known if oldest is not None}

    @property
    def fenced(self) -> dict[TopicPartition, str]:
        """The partitions that another member has claimed, with the reasons."""
        fence = self.log.fence
        return dict.fromkeys(self.partitions, str(fence.error)) if fence else {}
