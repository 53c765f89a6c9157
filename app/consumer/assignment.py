"""Holds the state of each assigned topic-partition, from its assignment to its revocation."""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from quixstreams.sinks import SinkBackpressureError

from app.consumer.uncommitted import Uncommitted
from app.errors import RetryableError
from app.journal.document import FencedError, LogClosedError
from app.model import BatchPart, OffsetRange, Rejected, Row, TopicPartition
from app.monitoring.metrics import Metrics
from app.timings import DEFAULT, Timings

# Of 64 bits, two are equal among a million processes with a probability of 1 in 37 million; of 32 bits for each
# assignment, two would probably be among 80,000. Within a process they are counted, and differ for certain.
_PROCESS = secrets.token_hex(8)
_NUMBERS = count()


def new_token() -> str:
    """A unique name of a generation: 24 hex digits, of which the first 16 are the same within a process."""
    return f"{_PROCESS}{next(_NUMBERS):08x}"


@dataclass(frozen=True, slots=True)
class Fence:
    """Why the rows of an assignment must not be written any more.

    Attributes:
        reason: for messages.
        since: monotonic seconds.
        is_closed: whether another member has closed the generation's log.
    """

    reason: str
    since: float
    is_closed: bool


class Assignment:
    """One assignment of a topic-partition to this member: the waiting records, and how far the partition is read.

    Each assignment is a new object, so that nothing of a former one (rows, offsets, a flush that is still running) can
    touch a later one. Partitions that were assigned together are a generation, and have one token.

    Attributes:
        expected: the next offset to read; a record before it is dropped.
        fenced: why its rows must not be written any more; ``None`` while they may.
        uncommitted: how old the first record is that is not committed.
    """

    __slots__ = (
        "_next_number",
        "_replayed_from",
        "_sealed_to",
        "expected",
        "fenced",
        "rejected",
        "replayed_to",
        "rows",
        "token",
        "tp",
        "uncommitted",
    )

    def __init__(self, tp: TopicPartition, token: str) -> None:
        self.tp = tp
        self.token = token
        self.rows: list[Row] = []
        self.rejected: list[Rejected] = []
        # After back-pressure, and while state is rebuilt, rows up to this offset come again although a batch has them.
        # At any other time a lower offset is no repetition: a buffered join emits records late, and a topic may have
        # been recreated.
        self.replayed_to = self._replayed_from = -1
        self._sealed_to = -1  # the last offset that a batch has, or that gave no row before one was sealed
        self._next_number = 0
        self.expected = 0
        self.fenced: Fence | None = None
        self.uncommitted = Uncommitted()

    @property
    def waiting(self) -> int:
        """Records that wait to be sealed, rejected ones among them."""
        return len(self.rows) + len(self.rejected)

    @property
    def is_ahead(self) -> bool:
        """Whether it was read beyond what is sealed, also where no row came."""
        return self.expected - 1 > self._sealed_to

    def seal_end(self) -> int:
        """The last offset that was read; called after ``seal``, where records wait."""
        self._sealed_to = max(self._sealed_to, self.expected - 1)
        return self._sealed_to

    def seal(self) -> tuple[BatchPart, list[Row], list[Rejected]]:
        """Take out the waiting records; there is at least one."""
        rows, self.rows = self.rows, []
        rejected, self.rejected = self.rejected, []
        offsets = [row.offset for row in rows] + [record.offset for record in rejected]
        part = BatchPart(OffsetRange(self.tp, min(offsets), max(offsets)), self.token, self._next_number)
        self._sealed_to = max(self._sealed_to, part.offsets.last)
        self._next_number += 1
        return part, rows, rejected

    def replay(self, first: int, last: int) -> None:
        """Drop rows between these offsets: a former assignment wrote them. A join may emit earlier ones late."""
        self._replayed_from = first
        self.replayed_to = self._sealed_to = last

    def rewind(self) -> None:
        """Drop the waiting records, and skip the sealed ones: the consumer reads again from its last commit."""
        self.rows = []
        self.rejected = []
        self.replayed_to = self._sealed_to

    def is_repeated(self, offset: int) -> bool:
        """Whether a row with this offset is in a batch already."""
        if offset <= self.replayed_to:
            return offset >= self._replayed_from
        self.replayed_to = self._replayed_from = -1
        return False

    def discard(self, offset: int) -> None:
        """Drop the waiting rows of a record that must not be written."""
        self.rows = [row for row in self.rows if row.offset != offset]


class Assignments:
    """The assignments of this member, shared by sink, loop, claims and ownership.

    The consumer's thread begins and ends them; ``is_current`` and ``fence`` are safe from any thread.

    Args:
        metrics: counts partitions that another member writes.
        timings: how long Kafka may still assign a partition to this member after another one has claimed it.

    Attributes:
        by_tp: the assignments; only ``begin`` and ``end`` add and remove them.
    """

    def __init__(self, metrics: Metrics | None = None, timings: Timings = DEFAULT) -> None:
        self._metrics = metrics or Metrics()
        self._timings = timings
        self._clock = timings.clock
        self.by_tp: dict[TopicPartition, Assignment] = {}
        # Replaced as a whole: other threads may iterate over them.
        self._all: tuple[Assignment, ...] = ()
        self._by_token: Mapping[str, tuple[Assignment, ...]] = {}
        self._sizes: dict[str, int] = {}  # of the generations

    def __contains__(self, tp: TopicPartition) -> bool:
        """Whether the partition is assigned."""
        return tp in self.by_tp

    @property
    def tps(self) -> tuple[TopicPartition, ...]:
        """The assigned partitions; safe from any thread."""
        return tuple(self.by_tp)

    def find(self, topic: str, partition: int) -> Assignment | None:
        """The partition's current assignment, if there is one; cheap enough for each record."""
        return self.by_tp.get((topic, partition))  # type: ignore[call-overload, no-any-return] # it is such a tuple

    def begin(self, tps: Iterable[TopicPartition]) -> str:
        """Begin a new assignment of these partitions, a generation; returns its token."""
        token = new_token()
        begun = {tp: Assignment(tp, token) for tp in tps}
        self.by_tp |= begun
        self._sizes[token] = len(begun)
        self._sort_by_token()
        return token

    def end(self, tps: Iterable[TopicPartition]) -> None:
        """End the assignments of these partitions and drop their waiting records."""
        for tp in tps:
            self.by_tp.pop(tp, None)
        self._sort_by_token()

    def is_current(self, token: str) -> bool:
        """Whether the generation with this token has not ended: none of its partitions has."""
        return token in self._by_token

    def token(self, tp: TopicPartition) -> str | None:
        """Token of the partition's current assignment, if there is one."""
        assignment = self.by_tp.get(tp)
        return assignment.token if assignment else None

    # --- offsets ----------------------------------------------------------------------------------------------------

    def start(self, tp: TopicPartition, offset: int, replayed_to: int) -> None:
        """Read the partition from this offset on; records up to ``replayed_to`` are in the lake already."""
        assignment = self.by_tp[tp]
        assignment.expected = offset
        assignment.replay(offset, max(offset - 1, replayed_to))

    def expect(self, tp: TopicPartition, offset: int) -> None:
        """Drop records of this partition before this offset."""
        if tp in self.by_tp:
            self.by_tp[tp].expected = offset

    def expected(self, tp: TopicPartition) -> int:
        """The next offset to read from this partition."""
        assignment = self.by_tp.get(tp)
        return assignment.expected if assignment else 0

    def consumed(self, tp: TopicPartition, offset: int, timestamp: int | None) -> None:
        """Note a consumed record; the first of a poll is enough. See ``Uncommitted.consumed``."""
        self.by_tp[tp].uncommitted.consumed(offset, timestamp)

    def committed(self, following: Mapping[TopicPartition, int]) -> None:
        """Note the committed offset of each partition; those that are not assigned any more are left out."""
        for tp, offset in following.items():
            assignment = self.by_tp.get(tp)
            if assignment:
                assignment.uncommitted.committed(offset, is_all=offset >= assignment.expected)

    @property
    def oldest_uncommitted(self) -> dict[TopicPartition, float]:
        """When the first record came into being that is consumed and not committed, in seconds since the epoch.

        Partitions without such a record are left out. Safe from any thread.
        """
        known = ((assignment.tp, assignment.uncommitted.oldest) for assignment in self._all)
        return {tp: oldest for tp, oldest in known if oldest is not None}

    # --- partitions that turned out to be written by another member -------------------------------------------------

    def fence(self, token: str, error: FencedError) -> None:
        """Forbid the generation with this token to write: its rows are dropped."""
        self._metrics.fenced()
        fence = Fence(str(error), self._clock(), isinstance(error, LogClosedError))
        for assignment in self._by_token.get(token, ()):
            assignment.fenced = fence

    @property
    def is_any_fenced(self) -> bool:
        """Whether one of the assignments must not write any more."""
        return bool(self._fences())

    @property
    def fenced(self) -> dict[TopicPartition, str]:
        """The assigned partitions that must not be written any more, with the reasons; safe from any thread."""
        return {each.tp: each.fenced.reason for each in self._all if each.fenced}

    @property
    def closed(self) -> tuple[Sequence[TopicPartition], str] | None:
        """The partitions of a whole generation whose log another member has closed, and the reason for messages."""
        for assignment in self._all:
            if assignment.fenced and assignment.fenced.is_closed and self.is_current(assignment.token):
                return [each.tp for each in self._by_token[assignment.token]], assignment.fenced.reason
        return None

    def refuse_flush(self, pause_seconds: float | None) -> None:
        """Prevent a commit while a fenced partition is still assigned to this member: its rows were dropped.

        Args:
            pause_seconds: for how long to pause; ``None`` where pausing is impossible.

        Raises:
            SinkBackpressureError, RetryableError: an assignment is fenced.
        """
        for fence in self._fences():
            raise SinkBackpressureError(retry_after=pause_seconds) if pause_seconds else taken_over(fence.reason)

    def end_if_fenced_for_long(self) -> None:
        """End the process if Kafka has not revoked a fenced partition for ``fenced_seconds``.

        Raises:
            RetryableError: there is such a partition.
        """
        for fence in self._fences():
            if self._clock() - fence.since > self._timings.fenced_seconds:
                raise taken_over(fence.reason)

    def _fences(self) -> list[Fence]:
        return [assignment.fenced for assignment in self._all if assignment.fenced]

    def _sort_by_token(self) -> None:
        """Keep the generations that are whole: Kafka takes all partitions of a member away together."""
        self._all = tuple(self.by_tp.values())
        by_token: dict[str, list[Assignment]] = {}
        for assignment in self._all:
            by_token.setdefault(assignment.token, []).append(assignment)
        self._by_token = {
            token: tuple(assignments)
            for token, assignments in by_token.items()
            if len(assignments) == self._sizes[token]
        }
        self._sizes = {token: self._sizes[token] for token in by_token}


def taken_over(reason: str) -> RetryableError:
    """The error to end with where Kafka goes on to assign partitions that another member has claimed."""
    return RetryableError(
        "writing a partition's rows",
        reason,
        "If no other connector uses this consumer group and table, a restart sets it right; nothing is lost",
    )
