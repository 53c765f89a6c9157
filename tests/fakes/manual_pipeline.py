"""A pipeline that does what a test says: records are delivered by hand, and waiting costs no time but the clock's."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from app.delivery.assignment import Assignment, Piece, Portion
from app.delivery.flow import Flow
from app.delivery.limits import BatchEnds, BatchLimits
from app.delivery.pipeline import Pipeline
from app.errors import RetryableError
from app.model import Rejected
from app.timings import Timings
from tests.fakes.clock import Clock


class ManualPipeline(Pipeline):
    """What a consumer sees of a pipeline, without its threads. ``on_wait`` is called where a consumer waits."""

    obstacle: RetryableError | None = None

    def __init__(self, clock: Clock, limits: BatchLimits) -> None:
        none: Any = None
        gathering: Any = SimpleNamespace(limits=limits, ends=BatchEnds(limits, clock))
        super().__init__(Flow(timings=Timings(clock=clock)), gathering, none, none)
        self.hold = self._flow.hold
        self.clock = clock
        self.portions: list[Portion] = []  # with records
        self.reasons: list[str] = []  # to end batches
        self.on_wait: Callable[[], None] = lambda: None
        self._delivered = 0

    def submit(self, portion: Portion) -> None:
        if portion.reason:
            self.reasons.append(portion.reason)
        else:
            self.portions.append(portion)
            self.hold(portion.size)

    def wait_delivered(self, assignment: Assignment, seconds: float) -> bool:
        if not (assignment.is_delivered or assignment.is_over or self.failure):
            self.wait_for_change(seconds)
        return assignment.is_delivered

    def wait_for_change(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.on_wait()

    def deliver(self) -> None:
        """Bring all that came into the lake, also what is of an assignment that has ended meanwhile."""
        for portion in self.portions[self._delivered :]:
            portion.assignment.delivered(portion.number, {piece.tp: piece.end for piece in portion.pieces})
            self.hold(-portion.size)
        self._delivered = len(self.portions)

    @property
    def pieces(self) -> list[Piece]:
        return [piece for portion in self.portions for piece in portion.pieces]

    @property
    def rejected(self) -> list[Rejected]:
        return [record for piece in self.pieces for record in piece.rejected]
