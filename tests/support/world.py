"""A table in a real folder, and its members: their logs, claims and files. Kafka, catalog and Spark are played.

It begins a member where a test wants one to begin: with a log that says so (``begun``), by a takeover without threads
(``claimed``), or as a lane does (``new_member``).
"""

import contextlib
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from app.catalog.base import Catalog
from app.catalog.registrar import Registrar
from app.delivery.assignment import Assignment, Claimed
from app.delivery.batch_limits import BatchLimits
from app.delivery.claimer import Group, StartSettings
from app.delivery.member import Member
from app.delivery.pipeline import Writer
from app.delivery.runtime import Buffer, Runtime, Threads
from app.delivery.stage import Stager
from app.errors import ConnectorError, RetryableError
from app.journal.entry import claim_key, is_log, log_key
from app.journal.first_offsets import FirstOffsets
from app.journal.journal import CLAIM, Journal, PartitionClaim
from app.journal.log import AssignmentLog, Intent, Progress, log_form
from app.journal.own_log import OwnLog
from app.journal.recovery import Settlement
from app.journal.start_offset import Beginnings
from app.journal.takeover import Takeover
from app.kafka.questions import GroupOffsets, PartitionOffsets
from app.kafka.watch import KafkaWatch, TopicIds
from app.model import DataFile, Mark, OffsetRange, TopicPartition
from app.monitoring.metrics import Metrics
from app.storage.base import ChangedError
from app.table.existing_table import TableLocation
from app.table.layout import PartitionSpec
from app.timings import Timings
from tests.fakes.arrow_writer import ArrowWriter
from tests.fakes.clock import Clock
from tests.fakes.journal_store import JournalStore
from tests.support.batches import UNBOUNDED, spec
from tests.support.waiting import PATIENCE, wait_until

P0, P1, P2 = (TopicPartition("sensors", number) for number in range(3))
LOG_FORM = log_form("data/t")
OURS, THEIRS, THIRD, FORMER = "aaaaaaaa", "bbbbbbbb", "cccccccc", "ffffffff"
BODY = b"0123456789"  # of every file
PLACEHOLDER = b"no rows"
AWAY = RetryableError("asking", "no route to host")


class Kafka(GroupOffsets):
    def __init__(self) -> None:
        self.offsets = PartitionOffsets(None, 0, 100, "id")
        self.offsets_of: dict[TopicPartition, PartitionOffsets] = {}
        self.errors: list[Exception] = []
        self.errors_of: dict[TopicPartition, list[Exception]] = {}
        self.id_errors: list[Exception] = []
        self.asked: list[TopicPartition] = []
        self.on_ask: Callable[[], None] = lambda: None
        self.times = {0: 0}  # by partition the offset since any time, now

    def ends(self, topic: str) -> dict[TopicPartition, int]:
        return {TopicPartition(topic, partition): self.offsets.high for partition in self.times}

    def begun(self, topic: str) -> set[TopicPartition]:
        return {*self.ends(topic)}

    def since(self, moment: datetime, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {tp: self.times[tp.partition] for tp in ends}

    def of(self, tp: TopicPartition) -> PartitionOffsets:
        self.asked.append(tp)
        self.on_ask()
        if self.errors:
            raise self.errors.pop(0)
        if self.errors_of.get(tp):
            raise self.errors_of[tp].pop(0)
        return self.offsets_of.get(tp, self.offsets)

    def beginnings(self, topic: str) -> dict[TopicPartition, int]:
        return {P0: self.offsets.low}

    def topic_id(self, _: str) -> str:
        if self.id_errors:
            raise self.id_errors.pop(0)
        return self.offsets.topic_id

    def cluster_id(self) -> str:
        return self.offsets.cluster_id


class World:
    """A table, and as many members as one likes; ``fenced`` are the tokens of the logs that found out.

    ``members``: whether Kafka has us in the group, by turns; then it has. ``is_in_catalog``: as it knows by the marks.
    """

    new_store: Callable[[Path], JournalStore] = JournalStore

    def __init__(self, tmp_path: Path, timings: Timings | None = None) -> None:
        self.lake = tmp_path / "lake"
        self.lake.mkdir()
        self.store = self.new_store(self.lake)
        self.clock = Clock()
        self.timings = timings or Timings(clock=self.clock, first_retry_seconds=0.002, fenced_seconds=0.02)
        self.epoch = Clock()
        self.is_in_catalog = False
        self.registered: list[list[str]] = []
        self.catalog_errors: list[ConnectorError] = []
        self.kafka = Kafka()
        self.fenced: list[str] = []
        self.members: list[bool | Exception] = []
        self.on_question: Callable[[], object] = lambda: None  # whether Kafka has us
        self.metrics = Metrics(timings=self.timings)
        self._tokens = iter("abcde0123")
        self._members: list[Member] = []

    def register(self, files: Sequence[DataFile], marks: Sequence[Mark]) -> None:
        if self.catalog_errors:
            raise self.catalog_errors.pop(0)
        self.registered.append([file.key for file in files])

    @property
    def journal(self) -> Journal:
        return Journal(self.store, "data/t", "group")

    # --- members ----------------------------------------------------------------------------------------------------

    def own_log(self, owner: str = OURS) -> OwnLog:
        told = self.fenced
        return OwnLog(
            self.journal,
            owner,
            fill=self.fill,
            on_fenced=lambda log: told.append(log.token),
            clock=self.clock,
            now=self.epoch,
        )

    def begun(
        self,
        owner: str = OURS,
        tps: Sequence[TopicPartition] = (P0,),
        end: int = -1,
        *,
        topic_id: str = "id",
        cluster_id: str = "",
    ) -> OwnLog:
        """The log of a member that has claimed these partitions, the first of all, and begins after this offset."""
        log = self.own_log(owner)
        log.take_over([progress_at(tp, end, topic_id, cluster_id) for tp in tps], ())
        for tp in tps:
            self.journal.claim(tp).write(PartitionClaim(seq=1, owner=owner, cluster_id=cluster_id))
        return log

    def claimed(self, owner: str = THEIRS, tps: Sequence[TopicPartition] = (P0,)) -> OwnLog:
        """The log of a member that has taken these partitions over and goes on where their logs are."""
        log = self.own_log(owner)
        self.takeover().claim(tps, log)
        log.remove_rolled_back()
        return log

    def takeover(self, *, follow_offsets: str = "") -> Takeover:
        first = FirstOffsets(self.journal, kafka=self.kafka, reset="earliest")
        return Takeover(
            self.journal,
            Settlement(self.store, self.register, lambda _: self.is_in_catalog, self.kafka, map, self.epoch),
            Beginnings(self.kafka, TopicIds(self.kafka.topic_id), first, follow_offsets),
        )

    def new_member(self, *, check_group: Callable[[], ConnectorError | None] = lambda: None, **settings: Any) -> Member:
        """A member that claims and writes nothing; it names its logs as ``OURS``, ``THEIRS`` and so on."""
        nothing: Any = None
        group = Group(
            "group",
            self.kafka,
            TopicIds(self.kafka.topic_id),
            KafkaWatch(),
            self._is_member,
            check_group,
            StartSettings(**settings),
        )
        return self._member(nothing, group)

    def _member(
        self,
        stager: Stager,
        group: Group,
        catalog: Catalog | None = None,
        table: PartitionSpec = spec("p"),  # noqa: B008
        writer: Writer | None = None,
        limits: BatchLimits = UNBOUNDED,
        **of_runtime: Any,
    ) -> Member:
        runtime = Runtime(
            self.lake,
            self.metrics,
            self.timings,
            threads=Threads(new_pool=Pools()),
            now=self.epoch,
            new_token=lambda: next(self._tokens) * 8,
        )
        registrar = Registrar(catalog, TableLocation(self.store.uri, "data/t"), table, "sensors", None)
        buffer = Buffer(limits)
        runtime = replace(runtime, **of_runtime)
        self._members.append(Member(self.store, registrar, stager, buffer, writer or ArrowWriter(), group, runtime))
        return self._members[-1]

    def _is_member(self) -> bool:
        self.on_question()
        answer = self.members.pop(0) if self.members else True
        if isinstance(answer, Exception):
            raise answer
        return answer

    def stop(self) -> None:
        for member in self._members:
            member.stop()

    def fill(self, keys: Collection[str]) -> None:
        for key in keys:
            self.store.overwrite(key, PLACEHOLDER)

    # --- what is stored ---------------------------------------------------------------------------------------------

    def log_key(self, owner: str = OURS) -> str:
        return log_key("data/t", "group", owner)

    def claim_key(self, tp: TopicPartition = P0) -> str:
        return claim_key("data/t", "group", tp)

    def log(self, owner: str = OURS) -> AssignmentLog:
        return LOG_FORM.parse((self.lake / self.log_key(owner)).read_bytes())

    def progress(self, owner: str = OURS, tp: TopicPartition = P0) -> Progress:
        progress = self.log(owner).of(tp)
        assert progress is not None
        return progress

    def end(self, owner: str = OURS, tp: TopicPartition = P0) -> int:
        return self.progress(owner, tp).end

    def owner(self, tp: TopicPartition = P0) -> str:
        return self.stored_claim(tp).owner

    def any_claim(self, tp: TopicPartition = P0) -> PartitionClaim | None:
        path = self.lake / self.claim_key(tp)
        return CLAIM.parse(path.read_bytes()) if path.exists() else None

    def stored_claim(self, tp: TopicPartition = P0) -> PartitionClaim:
        claim = self.any_claim(tp)
        assert claim is not None
        return claim

    def rolled_back(self, owner: str) -> list[str]:
        return [item.key for item in self.log(owner).revoked]

    def overwrite(self, key: str, body: bytes) -> None:
        path = self.lake / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)

    def delete(self, key: str) -> None:
        (self.lake / key).unlink()

    def store_files(self, *names: str, body: bytes = BODY) -> None:
        for name in names:
            self.overwrite(key_of(name), body)

    def upload_late(self, *names: str) -> None:
        """Uploads of a former owner arrive, as far as the store takes them."""
        path = self.lake / "late"
        path.write_bytes(BODY)
        for name in names:
            with contextlib.suppress(ChangedError):
                self.store.upload(path, key_of(name))

    def has(self, name: str) -> bool:
        """Whether readers see the rows of this file."""
        return self._body_of(name) is not None and not self.is_filled(name)

    def is_filled(self, name: str) -> bool:
        return (self._body_of(name) or b"").startswith((PLACEHOLDER, b"PAR1"))

    def _body_of(self, name: str) -> bytes | None:
        try:
            return (self.lake / key_of(name)).read_bytes()
        except FileNotFoundError:  # it may be deleted at any moment
            return None

    def check_versions(self) -> None:
        """Each version has a higher number than the one before: none has another's ETag."""
        for key, bodies in self.store.bodies.items():
            if not key.endswith(".json"):  # it has one version alone
                continue
            numbers = [version.seq for version in self.store.versions(key)]
            assert numbers == sorted(set(numbers)), (key, numbers)
            assert len(set(bodies)) == len(bodies)

    def documents(self) -> dict[str, bytes]:
        folder = self.lake / "data/t/_journal"
        return {str(path.relative_to(self.lake)): path.read_bytes() for path in folder.rglob("*.json")}

    def logs(self) -> list[str]:
        return [key for key in self.documents() if is_log(key)]


def progress_at(tp: TopicPartition, end: int, topic_id: str = "id", cluster_id: str = "") -> Progress:
    return Progress(topic=tp.topic, partition=tp.partition, end=end, topic_id=topic_id, cluster_id=cluster_id)


def key_of(name: str) -> str:
    return f"data/t/p=a/{name}"


def file(name: str, rows: int = 2) -> DataFile:
    return DataFile(key=key_of(name), size=len(BODY), rows=rows, partition_values={"p": "a"})


def intent(
    *names: str,
    batch: int = 1,
    end: int = 9,
    ends: Mapping[TopicPartition, int] | None = None,
    also: Sequence[str] = (),
) -> Intent:
    """A batch of five offsets of each partition; ``end`` is that of the first, where ``ends`` does not give others."""
    files = tuple(file(name) for name in names)
    offsets = [OffsetRange(tp, last - 4, last) for tp, last in ({P0: end} if ends is None else ends).items()]
    return Intent(batch, offsets, files, {key_of(name): 1 for name in also})


def through(assignment: Assignment, count: int = 1) -> list[Claimed]:
    found: list[Claimed] = []

    def look() -> bool:
        found.extend(assignment.new_claims())
        return len(found) >= count

    wait_until(look, f"{count} claims are through")
    return found


def claim_of(member: Member) -> Claimed:
    (claim,) = through(member.begin([P0]))
    return claim


class Pools:
    """Makes pools, and knows the last one of each name with its number of threads."""

    def __init__(self) -> None:
        self.made: dict[str, tuple[ThreadPoolExecutor, int]] = {}

    def __call__(self, name: str, workers: int) -> ThreadPoolExecutor:
        pool = ThreadPoolExecutor(workers)
        self.made[name] = pool, workers
        return pool


def wait_idle(member: Member) -> None:
    """Wait until no claim is under way."""
    pools = member.runtime.threads.new_pool
    assert isinstance(pools, Pools)
    pool, workers = pools.made["claim"]
    free = threading.Barrier(workers + 1, timeout=PATIENCE)
    try:
        for _ in range(workers):
            pool.submit(free.wait)
    except RuntimeError:  # shut down: the threads end with what they do
        pool.shutdown()
    else:
        free.wait()
