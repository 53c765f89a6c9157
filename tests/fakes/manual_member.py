"""A member that does what a test says: claims come through, and records are delivered by hand; waits take no time."""

from collections import deque
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from app.delivery.assignment import Assignment, Claimed, Piece, Portion
from app.delivery.flow import Flow
from app.delivery.member import Member
from app.delivery.runtime import Buffer, Runtime
from app.errors import RetryableError
from app.journal.journal import FencedError, Journal, LogClosedError
from app.journal.own_log import Fence, OwnLog, new_token
from app.journal.start_offset import Start
from app.kafka.watch import KafkaWatch, TopicIds
from app.model import Rejected, TopicPartition
from app.monitoring.metrics import Metrics
from app.timings import Timings
from tests.fakes.clock import Clock
from tests.support.batches import UNBOUNDED

CLOSED = LogClosedError("the log was closed by another member")


class ManualFlow(Flow):
    """``on_wait`` is called where a consumer waits."""

    obstacle: RetryableError | None = None
    on_wait: Callable[[], None]

    def wait_delivered(self, assignment: Assignment, seconds: float) -> bool:
        if not (assignment.is_delivered or assignment.is_over or self.failure):
            self.wait(seconds)
        return assignment.is_delivered

    def wait(self, seconds: float) -> None:
        self.runtime.timings.clock.advance(seconds)  # type: ignore[attr-defined]
        self.on_wait()


class ManualBuffer(Buffer):
    flow: ManualFlow

    def wait(self, seconds: float) -> None:
        self.flow.wait(seconds)


class ManualMember(Member):
    """Every partition begins at offset 0, unless ``starts`` has another; ``held_back`` ones wait for ``admit()``.

    It delivers while a consumer waits, unless ``flow.on_wait`` is another function.
    """

    def __init__(
        self, clock: Clock | None = None, *, batch_size: int = 1_000, max_buffer_bytes: int = 1_000_000
    ) -> None:
        self.clock = clock or Clock()
        timings = Timings(clock=self.clock)
        self.runtime = Runtime(Path(), Metrics(timings=timings), timings)
        limits = replace(UNBOUNDED, batch_size=batch_size, max_buffer_bytes=max_buffer_bytes, max_record_bytes=1_000)
        buffer = ManualBuffer(limits)
        self.flow: ManualFlow = ManualFlow(buffer, self.runtime)
        buffer.flow = self.flow
        self.flow.on_wait = self.deliver
        nothing: Any = SimpleNamespace(topic_ids=TopicIds(lambda _: ""), watch=KafkaWatch())
        self.group = nothing
        self._claimed_again_at = deque(maxlen=3)
        self.on_change: Callable[[], object] = lambda: None  # before an assignment begins or ends
        self.starts: dict[TopicPartition, Start] = {}
        self.held_back: set[TopicPartition] = set()
        self.closed: list[str | None] = []  # of each assignment, why it was claimed again
        self.portions: list[Portion] = []  # with records
        self.reasons: list[str] = []  # to end batches
        self._delivered = 0
        self._last: Assignment | None = None

    # --- claims -----------------------------------------------------------------------------------------------------

    @property
    def last(self) -> Assignment:
        """The present assignment, or the one that has ended."""
        assert self._last is not None, "nothing is assigned"
        return self._last

    def end(self) -> None:
        self.on_change()
        super().end()

    def begin(self, tps: Collection[TopicPartition], closed: str | None = None) -> Assignment:
        self.end()
        self.closed.append(closed)
        no_store: Any = SimpleNamespace(uri="file:///lake")
        log = OwnLog(Journal(no_store, "data/t", "group"), new_token(), fill=lambda _: None)
        self._last = Assignment(tps, log, self._submit)
        self._claim(set(tps) - self.held_back)
        return self._last

    def admit(self, *tps: TopicPartition) -> None:
        """Let the claims of these partitions succeed, or of all that were held back."""
        admitted = set(tps) or self.held_back
        self.held_back = self.held_back - admitted
        self._claim(admitted)

    def _claim(self, tps: Collection[TopicPartition]) -> None:
        self.last.claim_ended(*(Claimed(tp, self.starts.get(tp, Start(0))) for tp in sorted(tps)))

    def fence(self, error: FencedError = CLOSED) -> None:
        self.last.log.fence = Fence(error, self.clock())

    # --- records ----------------------------------------------------------------------------------------------------

    def _submit(self, portion: Portion) -> None:
        if portion.reason:
            self.reasons.append(portion.reason)
        else:
            self.portions.append(portion)
            self.flow.share.hold(portion.size)

    def deliver(self) -> None:
        """Bring all that came into the lake, also what is of an assignment that has ended meanwhile."""
        for portion in self.portions[self._delivered :]:
            portion.assignment.delivered(portion.number, {piece.tp: piece.end for piece in portion.pieces})
            self.flow.share.hold(-portion.size)
        self._delivered = len(self.portions)

    @property
    def pieces(self) -> list[Piece]:
        return [piece for portion in self.portions for piece in portion.pieces]

    @property
    def rejected(self) -> list[Rejected]:
        return [record for piece in self.pieces for record in piece.rejected]
