"""The assigned topic-partitions: one home for what is known of each, from its assignment to its revocation."""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from itertools import count

from quixstreams.sinks import SinkBackpressureError

from app.errors import RetryableError
from app.model import BatchPart, Message, OffsetRange, Rejected, Row, TopicPartition
from app.monitoring.metrics import Metrics
from app.timings import DEFAULT, Timings

# Of 64 bits, two are equal among a million processes with a probability of 1 in 37 million; of 32 bits for each
# assignment, two would probably be among 80,000. Within a process they are counted, and differ for certain.
_PROCESS = secrets.token_hex(8)
_NUMBERS = count()


def new_token() -> str:
    """Names an assignment, once for ever: 24 hex digits, that begin alike in one process."""
    return f"{_PROCESS}{next(_NUMBERS):08x}"


class Assignment:
    """One life of a topic-partition at this member: the records that wait to be sealed, and how far it is read.

    Each assignment is a new object with a new token, so that nothing of a former life (rows, offsets, a flush that is
    still running) can touch a later one.

    Attributes:
        expected: no record before this offset is to come.
        fenced: why its rows must not be written any more, and since when (monotonic seconds).
    """

    __slots__ = (
        "_next_number",
        "_replayed_from",
        "_sealed_to",
        "expected",
        "fenced",
        "messages",
        "rejected",
        "replayed_to",
        "rows",
        "token",
        "tp",
    )

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self.token = new_token()
        self.rows: list[Row] = []
        self.messages: list[Message] = []  # that are still to become rows, by rising offsets
        self.rejected: list[Rejected] = []
        # After back-pressure, or where state is made good, rows up to this offset come again though they are in a batch
        # already. At any other time a lower offset is no repetition: a buffered join gives out records late, a topic
        # may be made anew.
        self.replayed_to = self._replayed_from = -1
        self._sealed_to = -1
        self._next_number = 0
        self.expected = 0
        self.fenced: tuple[str, float] | None = None

    @property
    def waiting(self) -> int:
        """Records that wait to be sealed, rejected ones among them."""
        return len(self.rows) + len(self.messages) + len(self.rejected)

    def seal(self) -> tuple[BatchPart, list[Row], list[Message], list[Rejected]]:
        """Take out what waits; there is at least one record."""
        rows, self.rows = self.rows, []
        messages, self.messages = self.messages, []
        rejected, self.rejected = self.rejected, []
        offsets = [row.offset for row in rows] + [record.offset for record in rejected]
        offsets += [message.offset() for message in messages[:1] + messages[-1:]]
        part = BatchPart(OffsetRange(self.tp, min(offsets), max(offsets)), self.token, self._next_number)
        self._sealed_to = max(self._sealed_to, part.offsets.last)
        self._next_number += 1
        return part, rows, messages, rejected

    def replay(self, first: int, last: int) -> None:
        """What comes between these offsets is in a batch of a former life; what is given out late may be in none."""
        self._replayed_from = first
        self.replayed_to = self._sealed_to = last

    def rewind(self) -> None:
        """The consumer goes back to its last commit: drop what waits, and skip what is sealed when it comes."""
        self.rows = []
        self.messages = []
        self.rejected = []
        self.replayed_to = self._sealed_to

    def is_repeated(self, offset: int) -> bool:
        """Whether a row with this offset is in a batch already."""
        if offset <= self.replayed_to:
            return offset >= self._replayed_from
        self.replayed_to = self._replayed_from = -1
        return False

    def add_messages(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Take messages by rising offsets, but for those in a batch already; returns what was taken."""
        if messages[0].offset() <= self.replayed_to:
            messages = [message for message in messages if message.offset() > self.replayed_to]
        if messages:
            self.replayed_to = -1
            self.messages += messages
        return messages

    def discard(self, offset: int) -> None:
        """Drop the waiting rows of a record that must not be written."""
        self.rows = [row for row in self.rows if row.offset != offset]


class Assignments:
    """The assignments of this member, shared by all that have to do with one. Made before them.

    The consumer's thread begins and ends them; ``is_current`` and ``fence`` are safe from any thread.

    Args:
        metrics: told of partitions that another member writes.
        timings: how long Kafka may go on to call a partition ours that another member has taken.

    Attributes:
        by_tp: the assignments; only ``begin`` and ``end`` change which there are.
    """

    def __init__(self, metrics: Metrics | None = None, timings: Timings = DEFAULT) -> None:
        self._metrics = metrics or Metrics()
        self._timings = timings
        self._clock = timings.clock
        self.by_tp: dict[TopicPartition, Assignment] = {}
        self._by_token: Mapping[str, Assignment] = {}  # replaced as a whole: other threads may be going through it

    def __contains__(self, tp: TopicPartition) -> bool:
        """Whether the partition is assigned."""
        return tp in self.by_tp

    @property
    def tps(self) -> tuple[TopicPartition, ...]:
        """The assigned partitions; safe from any thread."""
        return tuple(self.by_tp)

    def find(self, topic: str, partition: int) -> Assignment | None:
        """The partition's assignment, if it has one now; cheap enough for each record."""
        return self.by_tp.get((topic, partition))  # type: ignore[call-overload, no-any-return] # it is such a tuple

    def begin(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, str]:
        """Begin a new life for each of these; returns their tokens."""
        begun = {tp: Assignment(tp) for tp in tps}
        self.by_tp |= begun
        self._by_token = {assignment.token: assignment for assignment in self.by_tp.values()}
        return {tp: assignment.token for tp, assignment in begun.items()}

    def end(self, tps: Iterable[TopicPartition]) -> None:
        """These partitions are not ours any more: what waits of them is dropped."""
        for tp in tps:
            self.by_tp.pop(tp, None)
        self._by_token = {assignment.token: assignment for assignment in self.by_tp.values()}

    def is_current(self, token: str) -> bool:
        """Whether the assignment with this token has not ended."""
        return token in self._by_token

    def token(self, tp: TopicPartition) -> str | None:
        """Token of the partition's assignment, if it has one now."""
        assignment = self.by_tp.get(tp)
        return assignment.token if assignment else None

    # --- offsets ----------------------------------------------------------------------------------------------------

    def start(self, tp: TopicPartition, offset: int, replayed_to: int) -> None:
        """The partition is read from this offset on; records up to ``replayed_to`` are in the lake already."""
        assignment = self.by_tp[tp]
        assignment.expected = offset
        assignment.replay(offset, replayed_to)

    def expect(self, tp: TopicPartition, offset: int) -> None:
        """No record before this offset is to come from this partition."""
        if tp in self.by_tp:
            self.by_tp[tp].expected = offset

    def expected(self, tp: TopicPartition) -> int:
        """The first offset that may come from this partition."""
        assignment = self.by_tp.get(tp)
        return assignment.expected if assignment else 0

    # --- partitions that turned out to be written by another member -------------------------------------------------

    def fence(self, token: str, reason: str) -> None:
        """The assignment with this token must not write any more: its rows are dropped."""
        self._metrics.fenced()
        assignment = self._by_token.get(token)
        if assignment:
            assignment.fenced = reason, self._clock()

    @property
    def is_any_fenced(self) -> bool:
        """Whether one of the assignments must not write any more."""
        return bool(self._fences())

    def refuse_flush(self, pause_seconds: float | None) -> None:
        """Let no offsets be committed while rows were dropped of a partition that Kafka says is ours.

        Args:
            pause_seconds: for how long to pause; ``None`` where nothing can be paused.

        Raises:
            SinkBackpressureError, RetryableError: an assignment is fenced.
        """
        for reason, _ in self._fences():
            raise SinkBackpressureError(retry_after=pause_seconds) if pause_seconds else _taken_over(reason)

    def end_if_fenced_for_long(self) -> None:
        """Give up when Kafka still says after a while that a fenced partition is ours.

        Raises:
            RetryableError: so it is.
        """
        for reason, since in self._fences():
            if self._clock() - since > self._timings.fenced_seconds:
                raise _taken_over(reason)

    def _fences(self) -> list[tuple[str, float]]:
        return [assignment.fenced for assignment in self._by_token.values() if assignment.fenced]


def _taken_over(reason: str) -> RetryableError:
    return RetryableError(
        "writing a partition's rows",
        reason,
        "If no other connector uses this consumer group and table, a restart sets it right; nothing is lost",
    )
