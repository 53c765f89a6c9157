"""Batches on their way to the lake, with the log of their generation."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from app.journal.ownership import JournalOwnership

from app.bad_records.policy import OnBadRecord
from app.errors import ConnectorError, FatalError, RetryableError
from app.journal.entry import is_log
from app.journal.log import GenerationLog
from app.model import Batch, TopicPartition
from app.storage.base import Content, StoredObject
from tests.fakes.journal_store import JournalStore
from tests.support.batches import batch_of, row
from tests.support.waiting import wait_until
from tests.unit.journal import journal_bench
from tests.unit.journal.journal_bench import LOG_FORM, P0, P1, P2
from tests.unit.pipeline.pipeline_line import ROOT, Gate, Line, NewLine, bad

A, B, OTHER = "aaaaaaaa", "bbbbbbbb", "ffffffff"
OWNERS = {P0: A, P1: A, P2: B}
AWAY = RetryableError("asking", "503")


class EventStore(JournalStore):
    """Writes down what was done to it: the state of each log that is written, reads, uploads."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.events: list[str] = []

    def read(self, key: str) -> Content | None:
        found = super().read(key)
        self.events.append("read")
        return found

    def write(self, key: str, body: bytes, *, replaces: str | None) -> str:
        etag = super().write(key, body, replaces=replaces)
        self.events.append(LOG_FORM.parse(body).state if is_log(key) else "claim")
        return etag

    def upload(self, path: Path, key: str) -> StoredObject:
        stored = super().upload(path, key)
        self.events.append("upload")
        return stored


class JournalLine(Line):
    """A pipeline with two generations: ``A`` has taken over the first two partitions, ``B`` the third one."""

    def __init__(self, tmp_path: Path, choice: OnBadRecord = "fail", virtual: Sequence[str] = ()) -> None:
        self.journaled = EventStore(tmp_path / "lake")
        self.told: list[str] = []
        self.ownership = JournalOwnership(
            lambda token: token not in self.ended, lambda token, _: self.told.append(token), fresh_seconds=10.0
        )
        super().__init__(tmp_path, store=self.journaled, ownership=self.ownership, choice=choice, virtual=virtual)
        self.journals = journal_bench.Bench(tmp_path)
        self.journals.store = self.journaled
        self.ownership.take(self.journals.begun(A, [P0, P1]))
        self.ownership.take(self.journals.begun(B, [P2]))
        self.events = self.journaled.events
        self.catalog.refuse = self._register
        self.events.clear()

    def _register(self) -> ConnectorError | None:
        self.events.append("register")
        return None

    def close_log(self) -> None:
        """Another member closes the log of ``A``, and has not looked at its batch yet."""
        document = self.journals.journal.log(A)
        log = document.read()
        assert log is not None
        document.write(log.changed(closed=True, writer=OTHER))

    def take_over(self, *tps: TopicPartition) -> None:
        """Another member claims partitions, by default both of ``A``, and settles what it finds."""
        self.journals.claimed(OTHER, tps or (P0, P1))

    def logs(self, token: str = A) -> list[GenerationLog]:
        versions = [LOG_FORM.parse(body) for body in self.journaled.bodies[self.journals.log_key(token)]]
        assert versions[-1] == self.journals.log(token)
        return versions

    def states(self, token: str = A) -> list[str]:
        return [log.state for log in self.logs(token)]

    @property
    def log(self) -> GenerationLog:
        return self.journals.log(A)

    @property
    def ends(self) -> list[int]:
        """How far the partitions of ``A`` are written."""
        return [self.journals.end(A, tp) for tp in (P0, P1)]

    @property
    def pending(self) -> GenerationLog:
        """The last batch that ``A`` has announced."""
        return [log for log in self.logs() if log.state == "pending"][-1]

    def keys_of(self, token: str) -> set[str]:
        """Keys of the data files with rows that the generation has stored."""
        return {
            str(path.relative_to(self.lake))
            for path in self.lake.rglob("data_*.parquet")
            if f"_{token}-" in path.name and path.read_bytes() != journal_bench.PLACEHOLDER
        }

    @property
    def registered(self) -> set[str]:
        return set(self.catalog.keys)


@pytest.fixture
def line(new_line: NewLine) -> JournalLine:
    line: JournalLine = new_line(JournalLine)
    return line


@pytest.fixture
def registering(line: JournalLine) -> Gate:
    """Where the batch waits that is registered first."""
    gate = Gate()
    line.catalog.refuse = gate
    return gate


def wait_written(line: JournalLine) -> None:
    wait_until(lambda: not line.pipeline._written.is_empty, "the next batch waits for its delivery")


def both(number: int = 1) -> Batch:
    """A batch of two files, each with rows of both partitions of ``A``."""
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
    assert line.events == ["pending", "upload", "upload", "read", "register", "done"]
    assert line.ends == [11, 11]


def test_what_is_announced_is_what_is_stored(line: JournalLine) -> None:
    first = [row({"p": p}, 40 + index) for index, p in enumerate("aba")]
    some = batch_of({P0: first, P1: [row({"p": "a"}, 7)]}, number=4, owners=OWNERS)
    line.submit(replace(some, ends={P0: 44, P1: 7}))  # the last two records gave no row
    assert line.delivered(4)
    announced = line.pending
    assert announced.batch == 1, "the pipeline's number, of which there is one for all partitions"
    assert [(each.tp, each.batch_offsets) for each in announced.in_batch] == [(P0, range(40, 45)), (P1, range(7, 8))]
    assert {file.key for file in announced.files} == line.keys_of(A) == line.registered
    assert line.registered == {
        f"{ROOT}/p=a/data_sensors_batch_{A}-1.parquet",
        f"{ROOT}/p=b/data_sensors-0_{40:019d}-42_{A}-1.parquet",
    }
    for file in announced.files:
        path = line.lake / file.key
        assert file.size == path.stat().st_size
        assert file.rows == pq.read_metadata(path).num_rows
        assert f"/p={file.partition_values['p']}/" in file.key


def test_a_batch_is_delivered_only_once_the_log_says_so(line: JournalLine) -> None:
    def begin_outage() -> None:
        line.store.refuse_small = lambda _: AWAY

    line.catalog.refuse = begin_outage
    line.submit(both())
    line.wait_for_obstacle()
    assert len(line.registered) == 2
    assert not line.pipeline.wait_delivered(1, 0.0)
    line.store.refuse_small = lambda _: None
    assert line.delivered(1)
    assert line.log.state == "done"


# --- generations of others ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("taken", [[P0, P1], [P0], [P1]])
def test_a_generation_fenced_before_its_upload_stores_and_registers_nothing_and_others_go_on(
    line: JournalLine, taken: list[TopicPartition]
) -> None:
    line.take_over(*taken)
    line.submit(both(), only(P2, 2))
    assert line.delivered(2)
    assert line.told == [A]
    assert line.keys_of(A) == set(), "a file may have rows of each of its partitions"
    assert line.registered == line.keys_of(B) != set()
    assert (line.log.closed, line.log.writer, line.ends) == (True, OTHER, [-1, -1])
    assert [line.journals.end(OTHER, tp) for tp in taken] == [-1] * len(taken)
    assert line.journals.end(B, P2) == 20


def test_a_generation_fenced_during_its_upload_registers_nothing_and_others_go_on(line: JournalLine) -> None:
    uploading = Gate()
    line.store.refuse = uploading
    line.submit(both())
    uploading.wait_reached()
    line.close_log()
    uploading.open()
    line.submit(only(P2, 2))
    assert line.delivered(2)
    assert line.told == [A]
    assert len(line.keys_of(A)) == 2, "what it has uploaded is its next owner's to decide on"
    assert line.registered == line.keys_of(B) != set()
    assert (line.log.state, line.states(B)[-1]) == ("pending", "done")


def test_a_generation_fenced_while_the_catalog_is_away_is_not_registered(line: JournalLine) -> None:
    def refuse_once() -> ConnectorError:
        line.close_log()
        line.catalog.refuse = lambda: None
        return AWAY

    line.catalog.refuse = refuse_once
    line.submit(both(), only(P2, 2))
    assert line.delivered(2)
    assert line.told == [A]
    assert line.registered == line.keys_of(B) != set()


# --- saying that it is done -----------------------------------------------------------------------------------------


def test_done_is_left_to_the_next_batch_and_written_at_the_end(line: JournalLine, registering: Gate) -> None:
    line.submit(only(P0, 1))
    registering.wait_reached()
    line.submit(only(P0, 2))
    wait_written(line)
    registering.open()
    assert line.delivered(2)
    assert line.states() == ["done", "pending", "pending", "done"]
    assert [(log.partitions[0].end, log.partitions[0].to) for log in line.logs()] == [
        (-1, None),
        (-1, 10),
        (10, 20),
        (20, None),
    ]


def test_a_delivered_batch_is_noted_down_where_a_lasting_failure_follows(line: JournalLine, registering: Gate) -> None:
    """Else the next start would have to judge it by files that somebody may have cleaned away."""
    line.submit(both(1))
    registering.wait_reached()
    line.submit(bad(2))
    wait_written(line)
    registering.open()
    line.failure()
    assert (line.log.state, line.ends) == ("done", [11, 11])


def test_a_log_that_cannot_be_written_does_not_hide_the_failure_before(line: JournalLine, registering: Gate) -> None:
    line.submit(both(1))
    registering.wait_reached()
    line.submit(bad(2))
    wait_written(line)
    line.store.refuse_small = lambda key: FatalError(f"writing {key}", "access denied") if line.registered else None
    registering.open()
    assert "access denied" not in str(line.failure())


# --- objects that are no data files ---------------------------------------------------------------------------------


def test_sidecars_and_dead_letters_are_announced_and_never_registered(new_line: NewLine) -> None:
    line: JournalLine = new_line(JournalLine, choice="dead-letter", virtual=["v"])
    line.submit(only(P0, 1, {"p": "a", "v": 1}, {"p": "x" * 300, "v": 2}))
    assert line.delivered(1)
    announced = line.pending
    name = f"data_sensors-0_{10:019d}-11_{A}-1.parquet"
    assert [file.key for file in announced.files] == [f"{ROOT}/p=a/{name}"]
    assert announced.also == {f"data/_dead_letter/t/{name}": 1, f"{ROOT}/p=a/.vidx/{name}": 0}
    assert all((line.lake / key).exists() for key in announced.objects)
    assert line.registered == {f"{ROOT}/p=a/{name}"}


def test_the_last_data_file_waits_for_what_goes_with_it(new_line: NewLine) -> None:
    """Whether a batch is complete is told by its data files alone."""
    line: JournalLine = new_line(JournalLine, choice="dead-letter", virtual=["v"])
    uploading = Gate()
    line.store.refuse = lambda key: uploading() if "_dead_letter" in key else None
    line.submit(only(P0, 1, {"p": "a", "v": 1}, {"p": "b", "v": 1}, {"p": "x" * 300, "v": 2}))
    uploading.wait_reached()
    wait_until(lambda: len(line.store.tried) == 4, "all but the last file were tried")
    assert len(line.keys_of(A) & {file.key for file in line.pending.files}) == 1
    answers: list[ConnectorError | None] = [AWAY]
    line.store.refuse = lambda key: answers.pop() if answers and ".vidx" in key else None
    uploading.open()
    assert line.delivered(1)
    assert {file.key for file in line.pending.files} == line.registered


def test_a_batch_of_dead_letters_alone_is_announced(new_line: NewLine) -> None:
    line: JournalLine = new_line(JournalLine, choice="dead-letter")
    line.submit(only(P0, 1, {"p": "x" * 300}))
    assert line.delivered(1)
    announced = line.pending
    assert (announced.files, len(announced.also), announced.partitions[0].to) == ((), 1, 10)
    assert line.events == ["pending", "upload", "read", "done"]
    assert (line.log.state, line.ends) == ("done", [10, -1])
    assert line.registered == set()


def test_a_batch_that_stores_nothing_moves_the_end_in_the_log_before_it_is_delivered(new_line: NewLine) -> None:
    line: JournalLine = new_line(JournalLine, choice="skip")
    line.submit(only(P0, 1, {"p": "x" * 300}))
    assert line.delivered(1)
    assert line.states() == ["done", "done"]
    line.submit(Batch(2, "checkpoint", owner=A, ends={P0: 17, P1: 3}))
    assert line.delivered(2)
    assert line.ends == [17, 3]
    assert line.registered == set()


def test_a_partition_whose_records_are_all_skipped_goes_on_with_its_batch(new_line: NewLine) -> None:
    line: JournalLine = new_line(JournalLine, choice="skip")
    rows = {P0: [row({"p": "x" * 300}, 5)], P1: [row({"p": "a"}, 5)]}
    line.submit(batch_of(rows, number=1, owners=OWNERS))
    assert line.delivered(1)
    assert line.states() == ["done", "pending", "done"]
    assert line.ends == [5, 5]
    assert line.registered == {f"{ROOT}/p=a/data_sensors-1_{5:019d}-5_{A}-1.parquet"}


def test_the_end_of_a_batch_that_was_closed_before_leaves_no_log_pending(line: JournalLine) -> None:
    gate = Gate()
    line.journaled.refuse = gate
    line.catalog.refuse = gate
    line.submit(batch_of({P0: [row({"p": "a", "v": 1}, 0)]}, owners=OWNERS, number=1))
    gate.wait_reached()
    line.submit(Batch(2, "1,000 rows, and no more come"))
    gate.open()
    assert line.delivered(2)
    wait_until(lambda: line.log.state == "done", "the log says so")
