"""Claims over a real folder; Kafka and the catalog are played."""

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from app.errors import ConnectorError, FatalError, RetryableError
from app.journal.claims import Claim, Claims
from app.journal.entry import JournaledFile, JournalEntry, journal_key, parse
from app.journal.group_offsets import PartitionOffsets
from app.journal.journal import Journal
from app.journal.kafka_watch import TopicIds
from app.journal.ownership import JournalOwnership
from app.journal.start_offset import StartFrom
from app.model import TopicPartition
from app.timings import Timings
from tests.fakes.journal_store import JournalStore
from tests.unit.journal.journal_bench import BODY, ROOTS, intent, key_of
from tests.unit.pipeline.pipeline_line import wait_until

P0, P1 = TopicPartition("sensors", 0), TopicPartition("sensors", 1)
A, B, FORMER = "aaaaaaaa", "bbbbbbbb", "ffffffff"
AWAY = RetryableError("asking", "no route to host")
DENIED = FatalError("asking", "access denied")


class Kafka:
    """Kafka's answers."""

    def __init__(self) -> None:
        self.offsets = PartitionOffsets(None, 0, 100, "id")
        self.errors: list[Exception] = []
        self.id_errors: list[Exception] = []
        self.asked: list[TopicPartition] = []
        self.on_ask: Callable[[], None] = lambda: None

    def of(self, tp: TopicPartition) -> PartitionOffsets:
        self.asked.append(tp)
        self.on_ask()
        if self.errors:
            raise self.errors.pop(0)
        return self.offsets

    def topic_id(self, topic: str) -> str:
        if self.id_errors:
            raise self.id_errors.pop(0)
        return self.offsets.topic_id

    def cluster_id(self) -> str:
        return self.offsets.cluster_id


class Bench:
    """Claims over a real folder; Kafka and the catalog are played."""

    def __init__(self, tmp_path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.timings = Timings(clock=clock, first_retry_seconds=0.002)
        self.lake = tmp_path
        self.store = JournalStore(tmp_path)
        self.kafka = Kafka()
        self.ended: set[str] = set()
        self.fenced: list[str] = []
        self.catalog_errors: list[ConnectorError] = []
        self.registered: list[list[str]] = []
        self.made: list[Claims] = []
        self.ownership = JournalOwnership(
            self.is_current, lambda token, _: self.fenced.append(token), workers=2, fresh_seconds=10.0
        )

    def claims(
        self,
        *,
        exactly_once: bool = True,
        reset: Literal["earliest", "latest"] = "latest",
        start_from: StartFrom = "auto",
        keeps_state: bool = False,
        check_group: Callable[[], ConnectorError | None] = lambda: None,
    ) -> Claims:
        claims = Claims(
            new_journal=self.journal,
            ownership=self.ownership if exactly_once else None,
            offsets=self.kafka,
            register=self.register,
            is_current=self.is_current,
            first_offset=lambda _, kafka: kafka.low if reset == "earliest" else kafka.high,
            topic_ids=TopicIds(self.kafka.topic_id),
            start_from=start_from,
            keeps_state=keeps_state,
            workers=2,
            check_group=check_group,
            timings=self.timings,
        )
        self.made.append(claims)
        return claims

    def is_current(self, token: str) -> bool:
        return token not in self.ended

    def journal(self, tp: TopicPartition, token: str) -> Journal:
        return Journal(self.store, journal_key("data/t", "group", tp), token, roots=ROOTS)

    def register(self, files: Sequence[JournaledFile]) -> None:
        if self.catalog_errors:
            raise self.catalog_errors.pop(0)
        self.registered.append([file.key for file in files])

    def left_behind(self, end: int, *, pending: Sequence[str] = (), stored: Sequence[str] = ()) -> None:
        """What a former owner of the first partition has done."""
        journal = self.journal(P0, FORMER)
        journal.claim(lambda: True)
        journal.begin(end, "id")
        if pending:
            journal.intend(intent(*pending, batch=0, end=end + 10))
        for name in stored:
            path = self.lake / key_of(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(BODY)

    def left_by_former_release(self, end: int) -> None:
        """What a release has done that knew no marks."""
        self.left_behind(end)
        body = self.stored().model_dump_json(exclude={"marks_commits", "cluster_id", "also_first"})
        (self.lake / journal_key("data/t", "group", P0)).write_text(body)

    def entry(self, tp: TopicPartition = P0) -> JournalEntry | None:
        path = self.lake / journal_key("data/t", "group", tp)
        return parse(path.read_bytes(), ROOTS) if path.exists() else None

    def stored(self, tp: TopicPartition = P0) -> JournalEntry:
        entry = self.entry(tp)
        assert entry is not None
        return entry

    def stop(self) -> None:
        for claims in self.made:
            claims.stop()
        self.ownership.stop()


def through(claims: Claims, count: int = 1) -> list[Claim]:
    found: list[Claim] = []

    def look() -> bool:
        found.extend(claims.finished())
        return len(found) >= count

    wait_until(look)
    return found


def claim_of(claims: Claims, token: str = A) -> Claim:
    claims.begin({P0: token})
    (claim,) = through(claims)
    return claim


def wait_idle(claims: Claims) -> None:
    """Wait until none of the threads has anything to do."""
    free = threading.Barrier(claims._pool._max_workers + 1)
    try:
        for _ in range(claims._pool._max_workers):
            claims._pool.submit(free.wait, 10.0)
    except RuntimeError:  # shut down: the threads end with what they do
        for thread in claims._pool._threads:
            thread.join(10.0)
            assert not thread.is_alive()
    else:
        free.wait(10.0)
