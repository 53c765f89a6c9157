"""Batches on their way to the lake, with the journals of their partitions."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from app.bad_records.policy import OnBadRecord
from app.errors import ConnectorError, FatalError, RetryableError
from app.journal.entry import JournaledFile, JournalEntry, journal_key
from app.journal.journal import Journal
from app.journal.ownership import JournalOwnership
from app.model import Batch, TopicPartition
from app.storage.base import Document, StoredObject
from tests.fakes.journal_store import JournalStore
from tests.support.batches import batch_of, row
from tests.unit.journal.journal_bench import whole
from tests.unit.pipeline.pipeline_line import ROOT, Gate, Line, bad, wait_until

P0, P1 = TopicPartition("sensors", 0), TopicPartition("sensors", 1)
A, B, OTHER = "aaaaaaaa", "bbbbbbbb", "ffffffff"
OWNERS = {P0: A, P1: B}
KEYS = {A: journal_key(ROOT, "group", P0), B: journal_key(ROOT, "group", P1)}
AWAY = RetryableError("asking", "503")


class EventStore(JournalStore):
    """Writes down what was done to it: ``state`` of a journal with the first letter of the owner, reads, uploads."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.events: list[str] = []

    def read(self, key: str) -> Document | None:
        found = super().read(key)
        self.events.append(f"look {_partition(key)}")
        return found

    def write(self, key: str, body: bytes, *, replaces: str | None) -> str:
        etag = super().write(key, body, replaces=replaces)
        entry = JournalEntry.model_validate_json(body)
        self.events.append(f"{entry.state} {_partition(key)}")
        return etag

    def upload(self, path: Path, key: str) -> StoredObject:
        stored = super().upload(path, key)
        self.events.append("upload")
        return stored


def _partition(key: str) -> str:
    return key.rpartition("/")[2].removesuffix(".json")


class JournalLine(Line):
    """A pipeline whose two partitions have journals, claimed and begun."""

    def __init__(self, tmp_path: Path, choice: OnBadRecord = "fail", virtual: Sequence[str] = ()) -> None:
        self.journaled = EventStore(tmp_path / "lake")
        self.told: list[str] = []
        self.ownership = JournalOwnership(
            lambda token: token not in self.ended,
            lambda token, _: self.told.append(token),
            workers=2,
            fresh_seconds=10.0,
        )
        super().__init__(tmp_path, store=self.journaled, ownership=self.ownership, choice=choice, virtual=virtual)
        for token in (A, B):
            journal = self.journal(token, token)
            journal.claim(lambda: True)
            journal.begin(-1, "")
            self.ownership.take(token, journal)
        self.events = self.journaled.events
        self.catalog.refuse = self._register
        self.events.clear()

    def _register(self) -> ConnectorError | None:
        self.events.append("register")
        return None

    def journal(self, partition_of: str, owner: str) -> Journal:
        return Journal(self.store, KEYS[partition_of], owner, roots=(f"{ROOT}/", "data/_dead_letter/t/"))

    def take_over(self, token: str) -> Journal:
        """Another member claims the partition."""
        journal = self.journal(token, OTHER)
        journal.claim(lambda: True)
        return journal

    def entries(self, token: str) -> list[JournalEntry]:
        return self.journaled.entries(KEYS[token])

    def entry(self, token: str) -> JournalEntry:
        return self.entries(token)[-1]

    def pending(self, token: str) -> JournalEntry:
        """The last batch that was announced."""
        return [entry for entry in self.entries(token) if entry.state == "pending"][-1]

    def keys_of(self, token: str) -> set[str]:
        """Keys of the data files that the assignment has stored."""
        return {
            str(path.relative_to(self.lake)) for path in self.lake.rglob("data_*.parquet") if f"_{token}-" in path.name
        }

    @property
    def registered(self) -> set[str]:
        return set(self.catalog.keys)


@pytest.fixture
def line(tmp_path: Path) -> Iterator[JournalLine]:
    line = JournalLine(tmp_path)
    yield line
    end(line)


def end(line: JournalLine) -> None:
    line.pipeline.stop()
    line.ownership.stop()


def both(number: int = 1) -> Batch:
    """A batch of both partitions, each with two files."""
    rows = {tp: [row({"p": p, "v": number}, 10 * number + i) for i, p in enumerate("ab")] for tp in (P0, P1)}
    return batch_of(rows, number=number, owners=OWNERS)


def only(tp: TopicPartition, number: int, *values: dict[str, Any]) -> Batch:
    some = values or ({"p": "a", "v": number},)
    rows = [row(value, 10 * number + index) for index, value in enumerate(some)]
    return batch_of({tp: rows}, number=number, owners=OWNERS)


# --- step by step ---------------------------------------------------------------------------------------------------


def test_the_steps_of_a_batch_come_in_their_order(line: JournalLine) -> None:
    line.submit(both())
    assert line.delivered(1)
    assert sorted(line.events[0:2]) == ["pending 0", "pending 1"]
    assert line.events[2:6] == ["upload"] * 4
    assert sorted(line.events[6:8]) == ["look 0", "look 1"]
    assert line.events[8] == "register"
    assert sorted(line.events[9:]) == ["done 0", "done 1"]
    assert [line.entry(token).end for token in (A, B)] == [11, 11]


def test_nothing_is_uploaded_before_all_partitions_have_announced_it(line: JournalLine) -> None:
    line.store.refuse_small = lambda key: AWAY if key == KEYS[B] else None
    line.submit(both())
    wait_until(lambda: line.pipeline.obstacle is not None)
    assert line.entry(A).state == "pending"
    assert line.store.tried == []
    line.store.refuse_small = lambda _: None
    assert line.delivered(1)
    assert len(line.entries(A)) == 3, "it is not announced twice"
    assert len(line.registered) == 4


def test_what_is_announced_is_what_is_stored(line: JournalLine) -> None:
    line.submit(only(P0, 4, {"p": "a"}, {"p": "b"}, {"p": "a"}))
    assert line.delivered(4)
    announced = line.pending(A)
    assert (announced.batch, announced.start, announced.end) == (3, 0, 42)
    assert {file.key for file in announced.files} == line.keys_of(A) == line.registered
    for file in announced.files:
        path = line.lake / file.key
        assert file.size == path.stat().st_size
        assert file.rows == pq.read_metadata(path).num_rows
        assert f"/p={file.partition_values['p']}/" in file.key


def test_a_catalog_that_is_away_gets_the_same_files_later(line: JournalLine) -> None:
    answers: list[ConnectorError | None] = [AWAY, AWAY, None]
    line.catalog.refuse = lambda: answers.pop(0)
    line.submit(both())
    assert line.delivered(1)
    assert {file.key for file in line.catalog.requests[0]} == {
        file.key for token in (A, B) for file in line.pending(token).files
    }
    assert [entry.state for entry in line.entries(A)] == ["done", "pending", "done"]
    assert line.events.count("look 0") == 3, "each try asks anew"


def test_a_batch_is_delivered_only_once_the_journal_says_so(line: JournalLine) -> None:
    def begin_outage() -> None:
        line.store.refuse_small = lambda _: AWAY

    line.catalog.refuse = begin_outage
    line.submit(both())
    wait_until(lambda: line.pipeline.obstacle is not None)
    assert len(line.registered) == 4
    assert not line.pipeline.wait_delivered(1, 0.05)
    line.store.refuse_small = lambda _: None
    assert line.delivered(1)
    assert line.entry(A).state == "done"


def test_a_lost_answer_neither_fences_nor_doubles(line: JournalLine) -> None:
    line.journaled.lost_answers = 2
    line.submit(both())
    assert line.delivered(1)
    line.journaled.lost_answers = 1
    line.submit(both(2))
    assert line.delivered(2)
    assert line.told == []
    assert len(line.registered) == 8
    assert [len(line.entries(token)) for token in (A, B)] == [5, 5]


# --- partitions of others -------------------------------------------------------------------------------------------


def test_a_partition_fenced_before_its_upload_stores_and_registers_nothing_and_others_go_on(line: JournalLine) -> None:
    line.take_over(A)
    line.submit(both())
    assert line.delivered(1)
    assert line.told == [A]
    assert line.keys_of(A) == set()
    assert line.registered == line.keys_of(B) != set()
    assert (line.entry(A).owner, line.entry(A).end, line.entry(B).end) == (OTHER, -1, 11)


def test_a_partition_fenced_during_its_upload_registers_nothing_and_others_go_on(line: JournalLine) -> None:
    uploading = Gate()
    line.store.refuse = uploading
    line.submit(both())
    uploading.wait_reached()
    line.take_over(A)
    uploading.open()
    assert line.delivered(1)
    assert line.told == [A]
    assert len(line.keys_of(A)) == 2, "what it has uploaded is its next owner's to decide on"
    assert line.registered == line.keys_of(B)
    assert (line.entry(A).state, line.entry(B).state) == ("pending", "done")


def test_a_partition_fenced_while_the_catalog_is_away_is_not_registered(line: JournalLine) -> None:
    def refuse_once() -> ConnectorError:
        line.take_over(A)
        line.catalog.refuse = lambda: None
        return AWAY

    line.catalog.refuse = refuse_once
    line.submit(both())
    assert line.delivered(1)
    assert line.told == [A]
    assert line.registered == line.keys_of(B)


def test_a_partition_given_away_after_its_upload_is_not_registered_and_stays_announced(line: JournalLine) -> None:
    uploading = Gate()
    line.store.refuse = uploading
    line.submit(both())
    uploading.wait_reached()
    line.ended.add(A)
    uploading.open()
    assert line.delivered(1)
    assert line.told == []
    assert line.registered == line.keys_of(B)
    assert line.entry(A).state == "pending"


def test_later_batches_of_a_fenced_partition_are_dropped(line: JournalLine) -> None:
    line.take_over(A)
    line.submit(both(1), both(2), both(3))
    assert line.delivered(3)
    assert line.told == [A]
    assert line.registered == line.keys_of(B)
    assert len(line.registered) == 6


def test_the_next_owner_registers_what_a_frozen_one_has_uploaded_and_that_one_nothing(line: JournalLine) -> None:
    frozen = Gate()
    line.journaled.on_small = lambda what, _: frozen() if what == "read" else None
    line.submit(both())
    frozen.wait_reached()
    line.journaled.on_small = lambda *_: None
    kept: list[JournaledFile] = []
    line.take_over(A).recover(kept.extend, whole)
    assert {file.key for file in kept} == line.keys_of(A)
    frozen.open()
    assert line.delivered(1)
    assert line.registered == line.keys_of(B)
    assert line.told == [A]
    assert len(line.keys_of(A)) == 2


def test_a_frozen_owner_that_is_undone_deletes_what_it_uploads_late(line: JournalLine) -> None:
    frozen = Gate()
    line.store.refuse = lambda key: frozen() if A in key else None
    line.submit(both())
    frozen.wait_reached()
    line.take_over(A).recover(lambda _: pytest.fail("nothing is complete"), whole)
    line.store.refuse = lambda _: None
    frozen.open()
    assert line.delivered(1)
    assert line.keys_of(A) == set()
    assert line.registered == line.keys_of(B)


# --- saying that it is done -----------------------------------------------------------------------------------------


def test_done_is_left_to_the_next_batch_and_written_at_the_end(line: JournalLine) -> None:
    registering = Gate()
    line.catalog.refuse = registering
    line.submit(only(P0, 1))
    registering.wait_reached()
    line.submit(only(P0, 2))
    wait_until(lambda: not line.pipeline._written.is_empty)
    registering.open()
    assert line.delivered(2)
    assert [entry.state for entry in line.entries(A)] == ["done", "pending", "pending", "done"]
    assert [entry.end for entry in line.entries(A)] == [-1, 10, 20, 20]


def test_done_is_said_of_partitions_that_are_not_in_the_last_batch(line: JournalLine) -> None:
    registering = Gate()
    line.catalog.refuse = registering
    line.submit(both(1))
    registering.wait_reached()
    line.submit(only(P1, 2))
    wait_until(lambda: not line.pipeline._written.is_empty)
    registering.open()
    assert line.delivered(2)
    assert [entry.state for entry in line.entries(A)] == ["done", "pending", "done"]
    assert [entry.state for entry in line.entries(B)] == ["done", "pending", "pending", "done"]


def test_done_is_written_at_once_when_no_batch_waits(line: JournalLine) -> None:
    for number in (1, 2):
        line.submit(only(P0, number))
        assert line.delivered(number)
    assert [entry.state for entry in line.entries(A)] == ["done", "pending", "done", "pending", "done"]


def test_a_delivered_batch_is_noted_down_where_a_lasting_failure_follows(line: JournalLine) -> None:
    """Else the next start would have to judge it by files that somebody may have cleaned away."""
    registering = Gate()
    line.catalog.refuse = registering
    line.submit(both(1))
    registering.wait_reached()
    line.submit(bad(2))
    wait_until(lambda: not line.pipeline._written.is_empty)
    registering.open()
    line.failure()
    assert [(line.entry(token).state, line.entry(token).end) for token in (A, B)] == [("done", 11)] * 2


def test_a_batch_that_fails_for_good_after_its_intent_is_left_for_the_next_start_to_judge(line: JournalLine) -> None:
    line.submit(both(1))
    assert line.delivered(1)
    line.store.refuse = lambda key: FatalError(f"uploading {key}", "access denied") if "/p=b/" in key else None
    line.submit(only(P0, 2, {"p": "a"}, {"p": "b"}))
    line.failure()
    assert (line.entry(A).state, line.entry(A).end) == ("pending", 21)


def test_a_journal_that_cannot_be_written_does_not_hide_the_failure_before(line: JournalLine) -> None:
    registering = Gate()
    line.catalog.refuse = registering
    line.submit(both(1))
    registering.wait_reached()
    line.submit(bad(2))
    wait_until(lambda: not line.pipeline._written.is_empty)
    line.store.refuse_small = lambda key: FatalError(f"writing {key}", "access denied") if line.registered else None
    registering.open()
    assert "access denied" not in str(line.failure())


# --- objects that are no data files ---------------------------------------------------------------------------------


def test_sidecars_and_dead_letters_are_announced_and_never_registered(tmp_path: Path) -> None:
    line = JournalLine(tmp_path, "dead-letter", virtual=["v"])
    line.submit(only(P0, 1, {"p": "a", "v": 1}, {"p": "x" * 300, "v": 2}))
    assert line.delivered(1)
    announced = line.pending(A)
    name = f"data_sensors-0_{10:019d}-11_{A}-0.parquet"
    assert [file.key for file in announced.files] == [f"{ROOT}/p=a/{name}"]
    assert sorted(announced.also) == [f"data/_dead_letter/t/{name}", f"{ROOT}/p=a/.vidx/{name}"]
    assert all((line.lake / key).exists() for key in announced.objects)
    assert line.registered == {f"{ROOT}/p=a/{name}"}
    end(line)


def test_the_last_data_file_waits_for_what_goes_with_it(tmp_path: Path) -> None:
    """Whether a batch is complete is told by its data files alone."""
    line = JournalLine(tmp_path, "dead-letter", virtual=["v"])
    uploading = Gate()
    line.store.refuse = lambda key: uploading() if "_dead_letter" in key else None
    line.submit(only(P0, 1, {"p": "a", "v": 1}, {"p": "b", "v": 1}, {"p": "x" * 300, "v": 2}))
    uploading.wait_reached()
    wait_until(lambda: len(line.store.tried) == 4)
    assert len(line.keys_of(A) & {file.key for file in line.pending(A).files}) == 1
    answers: list[ConnectorError | None] = [AWAY]
    line.store.refuse = lambda key: answers.pop() if answers and ".vidx" in key else None
    uploading.open()
    assert line.delivered(1)
    assert {file.key for file in line.pending(A).files} == line.registered
    end(line)


def test_a_batch_of_dead_letters_alone_is_announced(tmp_path: Path) -> None:
    line = JournalLine(tmp_path, "dead-letter")
    line.submit(only(P0, 1, {"p": "x" * 300}))
    assert line.delivered(1)
    announced = line.pending(A)
    assert (announced.files, len(announced.also), announced.end) == ((), 1, 10)
    assert line.events[0] == "pending 0"
    assert (line.entry(A).state, line.entry(A).end) == ("done", 10)
    assert line.registered == set()
    end(line)


def test_a_partition_that_stores_nothing_announces_nothing(tmp_path: Path) -> None:
    line = JournalLine(tmp_path, "skip")
    rows = {P0: [row({"p": "x" * 300}, 5)], P1: [row({"p": "a"}, 5)]}
    line.submit(batch_of(rows, number=1, owners=OWNERS))
    assert line.delivered(1)
    assert [entry.state for entry in line.entries(A)] == ["done"]
    assert [entry.state for entry in line.entries(B)] == ["done", "pending", "done"]
    end(line)


def test_the_end_of_a_batch_that_was_closed_before_leaves_no_journal_pending(line: JournalLine) -> None:
    gate = Gate()
    line.journaled.refuse = gate
    line.catalog.refuse = gate
    line.submit(batch_of({P0: [row({"p": "a", "v": 1}, 0)]}, owners=OWNERS, number=1))
    gate.wait_reached()
    line.submit(Batch(2, "1,000 rows, and no more come"))
    gate.open()
    assert line.delivered(2)
    wait_until(lambda: line.entry(A).state == "done")
