"""Batches on their way to the lake, with the log of their assignment."""

from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from app.delivery.assignment import Piece
from app.errors import ConnectorError, FatalError, RetryableError
from tests.support.waiting import wait_until
from tests.support.world import P0, P1, P2
from tests.unit.delivery.pipeline_line import ROOT, A, B, Gate, Line, NewLine, bad, one, piece

AWAY = RetryableError("asking", "503")


@pytest.fixture
def registering(line: Line) -> Gate:
    """Where the batch waits that is registered first."""
    gate = Gate()
    line.catalog.refuse = gate
    return gate


def both(number: int = 1) -> list[Piece]:
    """A batch of two files, each with rows of both partitions of ``A``."""
    return [piece(*({"p": p, "v": number} for p in "ab"), tp=tp, first=10 * number) for tp in (P0, P1)]


def deliver_of_another(line: Line) -> None:
    """The next assignment of the member, after the first one was fenced, goes on."""
    heir = line.assign(B, P2)
    line.batch(one(2, tp=P2), of=heir)
    assert line.delivered(heir)
    line.wait_empty()
    assert line.fenced == [A]
    assert line.in_catalog == line.keys_of(B) != set()
    assert line.states(B)[-1] == "done"
    assert line.assignment.fenced.keys() == {P0, P1}
    assert not line.assignment.is_delivered


# --- step by step ---------------------------------------------------------------------------------------------------


def test_the_steps_of_a_batch_come_in_their_order(line: Line) -> None:
    line.batch(*both())
    assert line.delivered()
    assert line.store.events == ["pending", "upload", "upload", "read", "register", "done"]
    assert line.both_ends == [11, 11]


def test_what_is_announced_is_what_is_stored(line: Line) -> None:
    line.batch(
        replace(piece({"p": "a"}, {"p": "b"}, {"p": "a"}, first=40), end=44),  # the last two records gave no row
        piece({"p": "a"}, tp=P1, first=7),
    )
    assert line.delivered()
    announced = line.pending
    assert announced.batch == 1
    assert [(each.tp, each.batch_offsets) for each in announced.in_batch] == [(P0, range(40, 45)), (P1, range(7, 8))]
    assert {file.key for file in announced.files} == line.keys_of(A) == line.in_catalog
    assert line.in_catalog == {
        f"{ROOT}/p=a/data_sensors_batch_{A}-1.parquet",
        f"{ROOT}/p=b/data_sensors-0_{40:019d}-42_{A}-1.parquet",
    }
    for file in announced.files:
        path = line.lake / file.key
        assert file.size == path.stat().st_size
        assert file.rows == pq.read_metadata(path).num_rows
        assert f"/p={file.partition_values['p']}/" in file.key


def test_a_batch_is_delivered_only_once_the_log_says_so(line: Line) -> None:
    def begin_outage() -> None:
        line.store.refuse_small = lambda _: AWAY

    line.catalog.refuse = begin_outage
    line.batch(*both())
    line.wait_for_obstacle()
    assert len(line.in_catalog) == 2
    assert line.assignment.to_commit() == []
    line.store.refuse_small = lambda _: None
    assert line.delivered()
    assert line.log(A).state == "done"
    assert [each.written for each in line.assignment.partitions.values()] == [12, 12]


# --- assignments that others fence ----------------------------------------------------------------------------------


def test_an_assignment_fenced_during_its_upload_registers_nothing_and_the_next_goes_on(line: Line) -> None:
    uploading = Gate()
    line.store.refuse = uploading
    line.batch(*both())
    uploading.wait_reached()
    line.close_log()
    uploading.open()
    deliver_of_another(line)
    assert len(line.keys_of(A)) == 2, "what it has uploaded is its next owner's to decide on"
    assert line.log(A).state == "pending"


def test_a_process_frozen_for_less_than_its_session_looks_before_it_uploads(line: Line) -> None:
    """Its last heartbeat may be older than its last look: others may have taken over already."""

    def freeze(_: str) -> ConnectorError:
        line.clock.advance(15)
        line.close_log()
        line.store.refuse = lambda _: None
        return AWAY

    line.store.refuse = freeze
    line.batch(one(1))
    deliver_of_another(line)
    assert line.keys_of(A) == set()


def test_a_batch_that_is_registered_counts_though_its_assignment_ends_meanwhile(line: Line) -> None:
    line.catalog.refuse = line.assignment.end
    line.batch(*both())
    line.wait_empty()
    assert line.in_catalog == line.keys_of(A) != set()
    [batch] = line.metrics.counts().last_batches
    assert (batch.rows, batch.dropped) == (4, 0)
    assert line.log(A).state == "pending", "the next owner finds it complete"


# --- saying that it is done -----------------------------------------------------------------------------------------


def test_done_is_left_to_the_next_batch_and_written_at_the_end(line: Line, registering: Gate) -> None:
    line.batch(one(10))
    registering.wait_reached()
    line.batch(one(20))
    line.wait_written()
    registering.open()
    assert line.delivered()
    assert line.states() == ["done", "pending", "pending", "done"]
    assert [(log.partitions[0].end, log.partitions[0].to) for log in line.versions()] == [
        (-1, None),
        (-1, 10),
        (10, 20),
        (20, None),
    ]


def test_a_delivered_batch_is_noted_down_where_a_lasting_failure_follows(line: Line, registering: Gate) -> None:
    """Else the next start would have to judge it by files that somebody may have cleaned away."""
    line.batch(*both())
    registering.wait_reached()
    line.batch(bad(20))
    line.wait_written()
    registering.open()
    line.failure()
    assert (line.log(A).state, line.both_ends) == ("done", [11, 11])


def test_a_log_that_cannot_be_written_does_not_hide_the_failure_before(line: Line, registering: Gate) -> None:
    line.batch(*both())
    registering.wait_reached()
    line.batch(bad(20))
    line.wait_written()
    line.store.refuse_small = lambda key: FatalError(f"writing {key}", "access denied") if line.in_catalog else None
    registering.open()
    assert "access denied" not in str(line.failure())


# --- objects that are no data files ---------------------------------------------------------------------------------


def test_sidecars_and_dead_letters_are_announced_and_never_registered(new_line: NewLine) -> None:
    line = new_line(choice="dead-letter", virtual=["v"])
    line.batch(piece({"p": "a", "v": 1}, {"p": "x" * 300, "v": 2}, first=10))
    assert line.delivered()
    announced = line.pending
    name = f"data_sensors-0_{10:019d}-11_{A}-1.parquet"
    assert [file.key for file in announced.files] == [f"{ROOT}/p=a/{name}"]
    assert announced.also == {f"data/_dead_letter/t/{name}": 1, f"{ROOT}/p=a/.vidx/{name}": 0}
    assert all((line.lake / key).exists() for key in announced.objects)
    assert line.in_catalog == {f"{ROOT}/p=a/{name}"}


def test_the_last_data_file_waits_for_what_goes_with_it(new_line: NewLine) -> None:
    """Whether a batch is complete is told by its data files alone."""
    line = new_line(choice="dead-letter", virtual=["v"])
    uploading = Gate()
    line.store.refuse = lambda key: uploading() if "_dead_letter" in key else None
    line.batch(piece({"p": "a", "v": 1}, {"p": "b", "v": 1}, {"p": "x" * 300, "v": 2}))
    uploading.wait_reached()
    wait_until(lambda: len(line.store.tried) == 4, "all but the last file were tried")
    assert len(line.keys_of(A) & {file.key for file in line.pending.files}) == 1
    answers: list[ConnectorError | None] = [AWAY]
    line.store.refuse = lambda key: answers.pop() if answers and ".vidx" in key else None
    uploading.open()
    assert line.delivered()
    assert {file.key for file in line.pending.files} == line.in_catalog


def test_a_batch_of_dead_letters_alone_is_announced(new_line: NewLine) -> None:
    line = new_line(choice="dead-letter")
    line.batch(piece({"p": "x" * 300}, first=10))
    assert line.delivered()
    announced = line.pending
    assert (announced.files, len(announced.also), announced.partitions[0].to) == ((), 1, 10)
    assert line.store.events == ["pending", "upload", "read", "done"]
    assert (line.log(A).state, line.both_ends) == ("done", [10, -1])
    assert line.in_catalog == set()


def test_a_batch_that_stores_nothing_moves_the_end_in_the_log_before_it_is_delivered(new_line: NewLine) -> None:
    line = new_line(choice="skip")
    line.batch(piece({"p": "x" * 300}, first=10))
    assert line.delivered()
    assert line.states() == ["done", "done"]
    line.batch(Piece(P0, 17), Piece(P1, 3))  # records that gave no row
    assert line.delivered()
    assert line.both_ends == [17, 3]
    assert line.in_catalog == set()


def test_a_partition_whose_records_are_all_skipped_goes_on_with_its_batch(new_line: NewLine) -> None:
    line = new_line(choice="skip")
    line.batch(piece({"p": "x" * 300}, first=5), piece({"p": "a"}, tp=P1, first=5))
    assert line.delivered()
    assert line.states() == ["done", "pending", "done"]
    assert line.both_ends == [5, 5]
    assert line.in_catalog == {f"{ROOT}/p=a/data_sensors-1_{5:019d}-5_{A}-1.parquet"}


def test_the_end_of_a_batch_that_was_closed_before_leaves_no_log_pending(line: Line) -> None:
    gate = Gate()
    line.store.refuse = gate
    line.batches(1)
    gate.wait_reached()
    line.assignment.end_batch("1,000 rows, and the topic is quiet")
    gate.open()
    assert line.delivered()
    wait_until(lambda: line.log(A).state == "done", "the log says so")
