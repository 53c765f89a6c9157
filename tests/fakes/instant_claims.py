"""Claims of partitions that come through at once, for tests of what happens around them."""

from collections.abc import Collection
from typing import Any

from app.delivery.assignment import Assignment, Claimed
from app.journal.beginning import Start
from app.journal.journal import FencedError, Journal, LogClosedError
from app.journal.own_log import Fence, OwnLog, new_token
from app.model import TopicPartition
from tests.fakes.manual_pipeline import ManualPipeline

CLOSED = LogClosedError("the log was closed by another member")


class InstantClaims:
    """Every partition begins at offset 0, unless ``starts`` has another; ``held_back`` ones wait for ``admit()``."""

    def __init__(self, pipeline: ManualPipeline) -> None:
        self._pipeline = pipeline
        self.starts: dict[TopicPartition, Start] = {}
        self.held_back: set[TopicPartition] = set()
        self.closed: list[str | None] = []  # of each assignment, why it was claimed again
        self._current: Assignment | None = None

    @property
    def current(self) -> Assignment:
        assert self._current is not None, "nothing is assigned"
        return self._current

    def begin(self, tps: Collection[TopicPartition], closed: str | None = None) -> Assignment:
        if self._current:
            self._current.end()
        self.closed.append(closed)
        no_store: Any = None
        log = OwnLog(Journal(no_store, "data/t", "group"), new_token(), fill=lambda _: None)
        self._current = Assignment(tps, log, self._pipeline.submit)
        self._claim(set(tps) - self.held_back)
        return self._current

    def admit(self, *tps: TopicPartition) -> None:
        """Let the claims of these partitions succeed, or of all that were held back."""
        admitted = set(tps) or self.held_back
        self.held_back = self.held_back - admitted
        self._claim(admitted)

    def _claim(self, tps: Collection[TopicPartition]) -> None:
        self.current.claim_ended(*(Claimed(tp, self.starts.get(tp, Start(0))) for tp in sorted(tps)))

    def fence(self, error: FencedError = CLOSED) -> None:
        self.current.log.fence = Fence(error, self._pipeline.clock())

    def is_same_topic(self, tp: TopicPartition) -> bool:
        return True

    def check(self) -> None:
        """All is as it was."""
