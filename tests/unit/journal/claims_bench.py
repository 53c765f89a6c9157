"""Claims over a real folder; Kafka and the catalog are played."""

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from app.journal.claims import Claim, Claims
from app.journal.generation import Generation
from app.journal.ownership import JournalOwnership

from app.errors import ConnectorError, FatalError, RetryableError
from app.journal.journal import FencedError
from app.journal.log import GenerationLog, Progress
from app.kafka.questions import PartitionOffsets
from app.kafka.watch import TopicIds
from app.model import TopicPartition
from app.monitoring.metrics import Metrics
from app.timings import Timings
from tests.support.waiting import PATIENCE, join, wait_until
from tests.unit.journal import journal_bench
from tests.unit.journal.journal_bench import P0, begin_at, intent

A, B, FORMER, ANOTHER = "aaaaaaaa", "bbbbbbbb", "ffffffff", "eeeeeeee"
AWAY = RetryableError("asking", "no route to host")
DENIED = FatalError("asking", "access denied")


class Bench:
    """Claims over a real folder; Kafka and the catalog are played."""

    def __init__(self, tmp_path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.timings = Timings(clock=clock, first_retry_seconds=0.002)
        self.journals = journal_bench.Bench(tmp_path)
        self.store = self.journals.store
        self.kafka = self.journals.kafka
        self.kafka.offsets = PartitionOffsets(None, 0, 100, "id")
        self.metrics = Metrics(timings=self.timings)
        self.ended: set[str] = set()
        self.closed: list[tuple[str, FencedError]] = []  # told by claims
        self.members: list[bool | Exception] = []  # whether Kafka has us in the group, by turns; then it has
        self.registered = self.journals.registered
        self.made: list[Claims] = []
        self.ownership = JournalOwnership(self.is_current, lambda *_: None, fresh_seconds=10.0)

    def claims(
        self,
        *,
        reset: Literal["earliest", "latest"] = "latest",
        follow_offsets: str = "",
        keeps_state: bool = False,
        check_group: Callable[[], ConnectorError | None] = lambda: None,
    ) -> Claims:
        claims = Claims(
            takeover=self.journals.takeover(),
            new_generation=self.journals.generation,
            ownership=self.ownership,
            offsets=self.kafka,
            is_current=self.is_current,
            first_offset=lambda _, kafka: kafka.low if reset == "earliest" else kafka.high,
            topic_ids=TopicIds(self.kafka.topic_id),
            follow_offsets=follow_offsets,
            keeps_state=keeps_state,
            check_group=check_group,
            is_member=self._is_member,
            on_fenced=lambda token, error: self.closed.append((token, error)),
            metrics=self.metrics,
            timings=self.timings,
        )
        self.made.append(claims)
        return claims

    def begin(self, *tps: TopicPartition, **settings: Any) -> Claims:
        """Claims that have begun, of the first partition unless others are named."""
        claims = self.claims(**settings)
        claims.begin(tps or [P0], A)
        return claims

    def is_current(self, token: str) -> bool:
        return token not in self.ended

    def _is_member(self) -> bool:
        answer = self.members.pop(0) if self.members else True
        if isinstance(answer, Exception):
            raise answer
        return answer

    def left_behind(
        self,
        end: int,
        *,
        pending: Sequence[str] = (),
        stored: Sequence[str] = (),
        topic_id: str = "id",
        cluster_id: str = "",
        tps: Sequence[TopicPartition] = (P0,),
    ) -> Generation:
        """What a former owner has done: of the first partition, unless others are named too."""
        former = self.journals.generation(FORMER)
        self.journals.claim(former, tps, begin=lambda tp, _: begin_at(tp, end, topic_id, cluster_id))
        if pending:
            former.intend(intent(*pending, batch=0, ends=dict.fromkeys(tps, end + 10)))
        self.journals.store_files(*stored)
        return former

    def taken_by_another_member(self, *tps: TopicPartition) -> Generation:
        """A claim that another member makes now."""
        return self.journals.claimed(ANOTHER, tps or (P0,))

    def owner(self, tp: TopicPartition = P0) -> str:
        return self.journals.stored_claim(tp).owner

    def stored(self, tp: TopicPartition = P0) -> tuple[GenerationLog, Progress]:
        """The log to which the claim points, and how far the partition is by that."""
        log = self.journals.log(self.owner(tp))
        progress = log.of(tp)
        assert progress is not None
        return log, progress

    def end(self, tp: TopicPartition = P0) -> int:
        return self.stored(tp)[1].end

    def stop(self) -> None:
        for claims in self.made:
            claims.stop()


def through(claims: Claims, count: int = 1) -> list[Claim]:
    found: list[Claim] = []

    def look() -> bool:
        found.extend(claims.finished())
        return len(found) >= count

    wait_until(look, f"{count} claims are through")
    return found


def claim_of(claims: Claims, token: str = A) -> Claim:
    claims.begin([P0], token)
    (claim,) = through(claims)
    return claim


def error_of(claims: Claims) -> ConnectorError:
    """What the claims end with."""
    with pytest.raises(ConnectorError) as raised:
        through(claims)
    return raised.value


def wait_idle(claims: Claims) -> None:
    """Wait until none of the threads has anything to do."""
    free = threading.Barrier(claims._pool._max_workers + 1, timeout=PATIENCE)
    try:
        for _ in range(claims._pool._max_workers):
            claims._pool.submit(free.wait)
    except RuntimeError:  # shut down: the threads end with what they do
        for thread in claims._pool._threads:
            join(thread)
    else:
        free.wait()
