"""The partitions that this member reads, by generation: one assignment of Kafka's is one generation with one token."""

import secrets
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from app.consumer.uncommitted import Uncommitted
from app.errors import RetryableError
from app.journal.journal import FencedError, LogClosedError
from app.model import BatchPart, Message, OffsetRange, Rejected, TopicPartition
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


class Partition:
    """One assigned partition: the messages that wait to be sealed, and how far it is.

    Attributes:
        is_claimed: whether it may be read.
        expected: the next offset to read.
        written: the next offset that is not in the lake.
        copied: the offset that was sent to Kafka last.
    """

    __slots__ = (
        "_number",
        "_sealed",
        "copied",
        "expected",
        "is_claimed",
        "messages",
        "rejected",
        "token",
        "tp",
        "uncommitted",
        "written",
    )

    def __init__(self, tp: TopicPartition, token: str) -> None:
        self.tp = tp
        self.token = token
        self.messages: list[Message] = []  # by rising offsets
        self.rejected: list[Rejected] = []
        self.is_claimed = False
        self.expected = self.written = self.copied = self._sealed = 0
        self.uncommitted = Uncommitted()
        self._number = 0

    def begin(self, offset: int) -> None:
        """Read from this offset on: the partition is claimed, and the log ends before it."""
        self.expected = self.written = self._sealed = offset
        self.copied = -1
        self.is_claimed = True

    @property
    def waiting(self) -> int:
        """Records that wait to be sealed, rejected ones among them."""
        return len(self.messages) + len(self.rejected)

    @property
    def is_ahead(self) -> bool:
        """Whether it was read beyond what is sealed, also where no record is left."""
        return self.expected > self._sealed

    def seal(self) -> tuple[BatchPart, list[Message], list[Rejected]]:
        """Take out the records that wait; there is at least one."""
        messages, self.messages = self.messages, []
        rejected, self.rejected = self.rejected, []
        offsets = [message.offset() for message in messages[:1] + messages[-1:]] + [each.offset for each in rejected]
        self._number += 1
        part = BatchPart(OffsetRange(self.tp, min(offsets), max(offsets)), self.token, self._number - 1)
        return part, messages, rejected

    def seal_end(self) -> int:
        """The last offset that was read; all before it is sealed, or is no record."""
        self._sealed = self.expected
        return self.expected - 1

    def delivered(self, end: int) -> None:
        """Note that all up to this offset is in the lake."""
        self.written = end + 1
        self.uncommitted.committed(self.written, is_all=self.written >= self.expected)


class Partitions:
    """The partitions of the present generation.

    The consumer's thread begins and ends it; ``is_current``, ``fence`` and what is asked are safe from any thread.

    Args:
        metrics: counts fences.
        timings: how long Kafka may go on to assign a partition to this member that another one has claimed.

    Attributes:
        by_tp: replaced as a whole.
        token: of the generation; ``None`` without one.
        is_paused: whether consuming is paused because the buffer is full.
    """

    def __init__(self, metrics: Metrics | None = None, timings: Timings = DEFAULT) -> None:
        self._metrics = metrics or Metrics()
        self._timings = timings
        self._lock = threading.Lock()  # so that no fence of a former generation hits the next one
        self._fence: Fence | None = None
        self.by_tp: Mapping[TopicPartition, Partition] = {}
        self.token: str | None = None
        self.is_paused = False

    def begin(self, tps: Collection[TopicPartition]) -> str:
        """Begin a generation of these partitions, after the former one has ended; returns its token."""
        token = new_token()
        with self._lock:
            self._fence, self.is_paused = None, False
            self.by_tp = {tp: Partition(tp, token) for tp in tps}
            self.token = token
        return token

    def end(self) -> None:
        """End the generation: nothing more of it is written."""
        with self._lock:
            self.token, self.by_tp, self._fence, self.is_paused = None, {}, None, False

    @property
    def tps(self) -> tuple[TopicPartition, ...]:
        return tuple(self.by_tp)

    @property
    def claimed(self) -> Sequence[Partition]:
        return [each for each in self.by_tp.values() if each.is_claimed]

    @property
    def unclaimed(self) -> frozenset[TopicPartition]:
        """The assigned partitions that wait for their claims."""
        return frozenset(tp for tp, each in self.by_tp.items() if not each.is_claimed)

    def is_read(self, tp: TopicPartition) -> bool:
        """Whether messages of this partition come now, as far as this member knows."""
        partition = self.by_tp.get(tp)
        return partition is not None and partition.is_claimed and not self.is_paused

    @property
    def oldest_uncommitted(self) -> dict[TopicPartition, float]:
        """When the first record came into being that is consumed and not in the lake, in seconds since the epoch.

        Partitions without such a record are left out.
        """
        known = ((tp, each.uncommitted.oldest) for tp, each in self.by_tp.items())
        return {tp: oldest for tp, oldest in known if oldest is not None}

    # --- a generation that turned out to be another member's ---------------------------------------------------------

    def is_current(self, token: str) -> bool:
        """Whether the generation with this token has not ended."""
        return token == self.token

    def fence(self, token: str, error: FencedError) -> None:
        """Forbid the generation with this token to write: what it has read is dropped."""
        self._metrics.fenced()
        with self._lock:
            if token == self.token:
                self._fence = Fence(str(error), self._timings.clock(), isinstance(error, LogClosedError))

    @property
    def is_fenced(self) -> bool:
        """Whether the generation must not write any more."""
        return self._fence is not None

    @property
    def fenced(self) -> dict[TopicPartition, str]:
        """The partitions that must not be written any more, with the reasons."""
        fence = self._fence
        return dict.fromkeys(self.by_tp, fence.reason) if fence else {}

    @property
    def closed(self) -> str | None:
        """The reason for messages if another member has closed the log, so that the partitions may be claimed again."""
        fence = self._fence
        return fence.reason if fence and fence.is_closed else None

    def end_if_fenced_for_long(self) -> None:
        """End the process if Kafka has not revoked the partitions ``fenced_seconds`` after another member's claim.

        Raises:
            RetryableError: so it is.
        """
        fence = self._fence
        if fence and self._timings.clock() - fence.since > self._timings.fenced_seconds:
            raise taken_over(fence.reason)


def taken_over(reason: str) -> RetryableError:
    """The error to end with where Kafka goes on to assign partitions that another member has claimed."""
    return RetryableError(
        "writing a partition's rows",
        reason,
        "If no other connector uses this consumer group and table, a restart sets it right; nothing is lost",
    )
