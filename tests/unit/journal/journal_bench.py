"""Journals of one topic-partition over a real folder, and the files that they speak of."""

from collections.abc import Sequence
from pathlib import Path

from app.journal.entry import JournaledFile, JournalEntry, parse
from app.journal.journal import Intent, Journal
from tests.fakes.clock import Clock
from tests.fakes.journal_store import JournalStore

KEY = "data/t/_journal/group/sensors/0.json"
ROOTS = ("data/t/", "data/_dead_letter/t/")
OURS, THEIRS = "aaaaaaaa", "bbbbbbbb"
BODY = b"0123456789"  # of every file


class Bench:
    """A store, and as many journals of the same partition as one likes."""

    def __init__(self, tmp_path: Path) -> None:
        self.lake = tmp_path / "lake"
        self.lake.mkdir()
        self.store = JournalStore(self.lake)
        self.clock = Clock()
        self.epoch = Clock()
        self.registered: list[list[str]] = []
        self.kafka: tuple[int, int] | None = None  # the first of the batch's offsets that it has, and the one after
        self.asked: list[int] = []

    def journal(self, owner: str = OURS) -> Journal:
        return Journal(self.store, KEY, owner, roots=ROOTS, clock=self.clock, now=self.epoch)

    def begun(self, owner: str = OURS, end: int = -1, topic_id: str = "id") -> Journal:
        """A journal that the owner has just begun, up to this offset."""
        journal = self.journal(owner)
        assert journal.claim(lambda: True) is None
        journal.begin(end, topic_id)
        return journal

    def claimed(self, owner: str = THEIRS) -> Journal:
        """A journal that was there before and is claimed by this owner."""
        journal = self.journal(owner)
        assert journal.claim(lambda: True) is not None
        return journal

    def recovered(self, owner: str = THEIRS) -> Journal:
        journal = self.claimed(owner)
        journal.recover(self.register, self.left_in_kafka)
        return journal

    def left_in_kafka(self, entry: JournalEntry) -> range:
        """Kafka has the offsets of ``self.kafka``, by default all that were ever written."""
        self.asked.append(entry.batch)
        return whole(entry) if self.kafka is None else range(*self.kafka)

    def register(self, files: Sequence[JournaledFile]) -> None:
        self.registered.append([file.key for file in files])

    def store_files(self, *names: str, body: bytes = BODY) -> None:
        for name in names:
            path = self.lake / key_of(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(body)

    def has(self, name: str) -> bool:
        return (self.lake / key_of(name)).exists()

    def overwrite(self, body: bytes) -> None:
        (self.lake / KEY).write_bytes(body)

    def delete_entry(self) -> None:
        (self.lake / KEY).unlink()

    @property
    def entry(self) -> JournalEntry:
        """What is stored."""
        return parse((self.lake / KEY).read_bytes(), ROOTS)

    @property
    def rolled_back(self) -> list[str]:
        return [item.key for item in self.entry.revoked]

    def check_versions(self) -> None:
        """Each version has a higher number than the one before: none has another's ETag."""
        for key, bodies in self.store.bodies.items():
            numbers = [entry.seq for entry in self.store.entries(key)]
            assert numbers == sorted(set(numbers)), numbers
            assert len(set(bodies)) == len(bodies)


def whole(entry: JournalEntry) -> range:
    """All offsets of a batch: Kafka has them still."""
    return range(entry.start, entry.end + 1)


def key_of(name: str) -> str:
    return f"data/t/p=a/{name}"


def file(name: str, rows: int = 2) -> JournaledFile:
    return JournaledFile(key=key_of(name), size=len(BODY), rows=rows, partition_values={"p": "a"})


def intent(*names: str, batch: int = 0, end: int = 9, also: Sequence[str] = ()) -> Intent:
    return Intent(batch, end, tuple(file(name) for name in names), tuple(key_of(name) for name in also))
