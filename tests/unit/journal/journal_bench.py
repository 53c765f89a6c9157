"""Generations and takeovers over a real folder, and the files that their logs speak of."""

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from app.journal.generation import Generation

from app.errors import ConnectorError
from app.journal.claim import CLAIM, PartitionClaim
from app.journal.entry import claim_key, is_log, log_key
from app.journal.journal import Journal
from app.journal.log import GenerationLog, Intent, Progress, log_form
from app.journal.takeover import Begin, Takeover
from app.kafka.questions import GroupOffsets, PartitionOffsets
from app.model import DataFile, Mark, OffsetRange, TopicPartition
from app.storage.base import ChangedError
from tests.fakes.clock import Clock
from tests.fakes.journal_store import JournalStore

P0, P1, P2 = (TopicPartition("sensors", number) for number in range(3))
LOG_FORM = log_form("data/t")
OURS, THEIRS, THIRD = "aaaaaaaa", "bbbbbbbb", "cccccccc"
BODY = b"0123456789"  # of every file
PLACEHOLDER = b"no rows"


class Kafka(GroupOffsets):
    """Kafka's answers."""

    def __init__(self) -> None:
        self.offsets = PartitionOffsets(None, 0, 1_000, "id")
        self.offsets_of: dict[TopicPartition, PartitionOffsets] = {}
        self.errors: list[Exception] = []
        self.errors_of: dict[TopicPartition, list[Exception]] = {}
        self.id_errors: list[Exception] = []
        self.asked: list[TopicPartition] = []
        self.on_ask: Callable[[], None] = lambda: None

    def of(self, tp: TopicPartition) -> PartitionOffsets:
        self.asked.append(tp)
        self.on_ask()
        if self.errors:
            raise self.errors.pop(0)
        if self.errors_of.get(tp):
            raise self.errors_of[tp].pop(0)
        return self.offsets_of.get(tp, self.offsets)

    def topic_id(self, _: str) -> str:
        if self.id_errors:
            raise self.id_errors.pop(0)
        return self.offsets.topic_id

    def cluster_id(self) -> str:
        return self.offsets.cluster_id


class Bench:
    """A store, and as many generations as one likes."""

    def __init__(self, tmp_path: Path) -> None:
        self.lake = tmp_path / "lake"
        self.lake.mkdir(exist_ok=True)
        self.store = JournalStore(self.lake)
        self.clock = Clock()
        self.epoch = Clock()
        self.is_in_catalog = False  # a batch, as the catalog knows by its marks
        self.registered: list[list[str]] = []
        self.catalog_errors: list[ConnectorError] = []
        self.kafka = Kafka()

    def register(self, files: Sequence[DataFile], marks: Sequence[Mark]) -> None:
        if self.catalog_errors:
            raise self.catalog_errors.pop(0)
        self.registered.append([file.key for file in files])

    @property
    def journal(self) -> Journal:
        return Journal(self.store, "data/t", "group")

    # --- members ----------------------------------------------------------------------------------------------------

    def generation(self, owner: str = OURS) -> Generation:
        return Generation(self.journal, owner, fill=self.fill, clock=self.clock, now=self.epoch)

    def begun(self, owner: str = OURS, tps: Sequence[TopicPartition] = (P0,), end: int = -1) -> Generation:
        """A generation that has just taken over these partitions, up to this offset."""
        generation = self.generation(owner)
        self.claim(generation, tps, begin=lambda tp, _: begin_at(tp, end))
        return generation

    def claimed(self, owner: str = THEIRS, tps: Sequence[TopicPartition] = (P0,)) -> Generation:
        """A generation that takes these partitions over and goes on where their logs are."""
        generation = self.generation(owner)
        self.claim(generation, tps)
        return generation

    def claim(
        self,
        generation: Generation,
        tps: Sequence[TopicPartition] = (P0,),
        *,
        is_wanted: Callable[[], bool] = lambda: True,
        check: Callable[[TopicPartition, Progress], None] = lambda *_: None,
        begin: Callable[[TopicPartition, Progress | None], Begin] | None = None,
    ) -> dict[TopicPartition, int]:
        """Claim as ``Claims`` does; the ends at which the partitions begin."""
        return self.takeover().run(tps, generation, is_wanted=is_wanted, check=check, begin=begin or going_on)

    def takeover(self) -> Takeover:
        return Takeover(
            self.journal,
            offsets=self.kafka,
            register=self.register,
            is_registered=lambda _: self.is_in_catalog,
            now=self.epoch,
        )

    def fill(self, keys: Collection[str]) -> None:
        for key in keys:
            self.store.overwrite(key, PLACEHOLDER)

    # --- what is stored ---------------------------------------------------------------------------------------------

    def log_key(self, owner: str = OURS) -> str:
        return log_key("data/t", "group", owner)

    def claim_key(self, tp: TopicPartition = P0) -> str:
        return claim_key("data/t", "group", tp)

    def log(self, owner: str = OURS) -> GenerationLog:
        return LOG_FORM.parse((self.lake / self.log_key(owner)).read_bytes())

    def end(self, owner: str = OURS, tp: TopicPartition = P0) -> int:
        progress = self.log(owner).of(tp)
        assert progress is not None
        return progress.end

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
        return self._body_of(name) not in {None, PLACEHOLDER}

    def is_filled(self, name: str) -> bool:
        return self._body_of(name) == PLACEHOLDER

    def _body_of(self, name: str) -> bytes | None:
        try:
            return (self.lake / key_of(name)).read_bytes()
        except FileNotFoundError:  # it may be deleted at any moment
            return None

    def check_versions(self) -> None:
        """Each version has a higher number than the one before: none has another's ETag."""
        for key, bodies in self.store.bodies.items():
            numbers = [version.seq for version in self.store.versions(key)]
            assert numbers == sorted(set(numbers)), (key, numbers)
            assert len(set(bodies)) == len(bodies)

    def documents(self) -> dict[str, bytes]:
        """All claims and logs, by key."""
        folder = self.lake / "data/t/_journal"
        return {str(path.relative_to(self.lake)): path.read_bytes() for path in folder.rglob("*.json")}

    def logs(self) -> list[str]:
        return [key for key in self.documents() if is_log(key)]


def progress_at(tp: TopicPartition, end: int, topic_id: str = "id", cluster_id: str = "") -> Progress:
    return Progress(topic=tp.topic, partition=tp.partition, end=end, topic_id=topic_id, cluster_id=cluster_id)


def begin_at(tp: TopicPartition, end: int, topic_id: str = "id", cluster_id: str = "") -> Begin:
    return Begin(end, progress_at(tp, end, topic_id, cluster_id))


def going_on(tp: TopicPartition, former: Progress | None) -> Begin:
    return begin_at(tp, -1) if former is None else Begin(former.end, former)


def key_of(name: str) -> str:
    return f"data/t/p=a/{name}"


def file(name: str, rows: int = 2) -> DataFile:
    return DataFile(key_of(name), {"p": "a"}, rows, len(BODY))


def intent(
    *names: str,
    batch: int = 0,
    end: int = 9,
    ends: Mapping[TopicPartition, int] | None = None,
    also: Sequence[str] = (),
) -> Intent:
    """A batch of five offsets of each partition; ``end`` is that of the first, where ``ends`` does not give others."""
    files = tuple(file(name) for name in names)
    offsets = [OffsetRange(tp, last - 4, last) for tp, last in ({P0: end} if ends is None else ends).items()]
    return Intent(batch, offsets, files, {key_of(name): 1 for name in also})
