"""The three threads between the consumer and the lake: order, overlap, memory and failures."""

import re
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace

import pytest

from app.consumer.rows import RowMessage
from app.delivery.assignment import Piece
from app.errors import ConfigError, ConnectorError, DataError, FatalError, SparkLostError
from tests.fakes.kafka_message import KafkaMessage
from tests.support.batches import UNBOUNDED
from tests.support.waiting import PATIENCE, wait_until
from tests.support.world import P0, P2
from tests.unit.delivery.pipeline_line import AT_ONCE, B, Gate, Line, NewLine, bad, one, own_threads, piece

# --- all goes well --------------------------------------------------------------------------------------------------


def test_rows_keep_their_order_where_some_come_as_messages(new_line: NewLine) -> None:
    line = new_line(limits=UNBOUNDED)
    messages = [RowMessage(b'{"p":"a","v":%d}' % at, 0, None, KafkaMessage(b"", at=at)) for at in range(2)]
    line.take(Piece(P0, 1, messages=messages))
    line.batch(one(2))
    assert line.delivered()
    assert [values["v"] for values in line.rows()] == [0, 1, 2]


def test_a_batch_is_prepared_and_another_written_while_one_is_uploaded(line: Line) -> None:
    uploading, writing = Gate(), Gate()
    line.store.refuse = uploading
    line.writer.before = lambda number: writing() if number == 1 else None
    line.batches(1, 2, 3)
    uploading.wait_reached()
    writing.wait_reached()
    line.wait_staged()
    assert (line.scratch / "batch-3" / "staged.parquet").exists()
    assert line.assignment.partitions[P0].written == 0
    uploading.open()
    writing.open()
    assert line.delivered()
    assert line.assignment.partitions[P0].written == 4


def test_the_bytes_of_a_batch_are_held_until_it_is_staged(line: Line) -> None:
    gate = Gate()
    line.writer.before = gate
    line.batches(1)
    gate.wait_reached()
    line.wait_staged()
    for number, size in ((2, 200), (3, 400), (4, 800), (5, 1_600)):
        line.batch(one(number), size=size)
    # Batch 2 waits for the writer, batch 3 for its place, and the rows of the others for the thread that stages.
    wait_until(lambda: line.flow.buffer.held_bytes == 2_400, "batch 3 is staged")
    gate.open()
    assert line.delivered()
    assert line.flow.buffer.held_bytes == 0


def test_a_batch_grows_while_another_one_waits_for_spark(new_line: NewLine) -> None:
    line = new_line(limits=replace(AT_ONCE, batch_size=1, target_file_bytes=0))
    gate = Gate()
    line.writer.before = gate
    line.take(one(1))
    gate.wait_reached()
    line.take(one(2))
    wait_until(lambda: not line.flow.staged.is_empty, "the second batch waits")
    line.take(one(3))
    line.take(one(4))
    line.wait_staged()
    gate.open()
    assert line.delivered()
    assert [sum(file.rows for file in files) for files in line.catalog.requests] == [1, 1, 2]


# --- portions of a batch --------------------------------------------------------------------------------------------


def reasons(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return re.findall(r"batch (\d) \((.*?)\)", caplog.text)


@pytest.fixture(autouse=True)
def all_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")


def test_the_end_of_a_batch_without_records_is_no_batch(line: Line, caplog: pytest.LogCaptureFixture) -> None:
    line.assignment.end_batch("nothing there")
    assert line.delivered()
    line.batches(1)
    line.assignment.end_batch("nothing more")
    assert line.delivered()
    assert reasons(caplog) == [("1", "test")]
    line.wait_empty()


def test_rows_of_another_type_begin_another_batch(line: Line, caplog: pytest.LogCaptureFixture) -> None:
    line.take(one(1))
    line.take(one(1.5, first=2))
    line.batch(one(2, first=3))
    assert line.delivered()
    assert line.values() == [1, 1.5, 2]
    assert reasons(caplog) == [("1", "a column's type changed"), ("2", "test")]
    assert [len(request) for request in line.catalog.requests] == [1, 1]


def test_portions_before_a_record_that_ends_the_process_arrive(line: Line, caplog: pytest.LogCaptureFixture) -> None:
    line.take(one(1))
    line.take(one(2))
    line.batch(bad(3))
    assert line.failure()
    assert line.values() == [1, 2]
    assert line.assignment.partitions[P0].written == 3
    assert not line.assignment.is_delivered
    assert reasons(caplog) == [("1", "records before a failure")]


def test_a_batch_ends_by_itself_when_its_staged_file_is_large(new_line: NewLine) -> None:
    line = new_line(limits=replace(AT_ONCE, max_staged_bytes=1))
    line.take(one(1))
    line.take(one(2))
    assert line.delivered()
    assert line.values() == [1, 2]
    assert len(line.catalog.requests) == 2


def test_a_batch_ends_by_itself_when_its_files_are_large_enough(new_line: NewLine) -> None:
    line = new_line(limits=replace(AT_ONCE, target_file_bytes=1))
    line.take(one(1))
    line.batch(one(2), reason="how large files are is unknown")
    assert line.delivered()
    line.take(one(3))
    assert line.delivered()
    assert line.values() == [1, 2, 3]


def test_a_disk_that_is_nearly_full_ends_the_batch_and_is_waited_for(
    new_line: NewLine, caplog: pytest.LogCaptureFixture
) -> None:
    # As if the files of the first batch took all the room.
    line = new_line(free_bytes=lambda folder: 0 if any(folder.glob("batch-1/*")) else 2**40)
    uploading = Gate()
    line.store.refuse = uploading
    line.take(one(1))
    line.batch(one(2))
    uploading.wait_reached()
    assert line.flow.buffer.held_bytes > 0, "the second portion waits"
    uploading.open()
    assert line.delivered()
    assert line.values() == [1, 2]
    assert reasons(caplog) == [("1", "little room in the temporary folder"), ("2", "test")]
    assert f"the temporary folder {line.scratch} is nearly full" in caplog.text


def test_a_disk_that_stays_full_is_tried_once_nothing_is_under_way(new_line: NewLine) -> None:
    line = new_line(free_bytes=lambda _: 0)
    line.take(one(1))
    line.batch(one(2))
    assert line.delivered()
    assert line.values() == [1, 2]


# --- assignments that end -------------------------------------------------------------------------------------------


def waiting_for_conversion(line: Line) -> Callable[[], None]:
    """The batch before is staged and waits behind one that waits for Spark; ``stage`` waits with it."""
    gate = Gate()
    line.writer.before = gate
    line.batches(1, 2, 3)
    gate.wait_reached()
    wait_until(lambda: line.flow.buffer.under_way == 3, "the third is staged")
    line.take(one(4))
    return gate.open


def waiting_for_delivery(line: Line) -> Callable[[], None]:
    gate = Gate()
    line.store.refuse = gate
    line.batches(1, 2)
    gate.wait_reached()
    line.wait_written()
    return gate.open


@pytest.mark.parametrize(("begin", "spark_jobs"), [(waiting_for_conversion, 1), (waiting_for_delivery, 2)])
def test_what_there_is_of_an_assignment_that_ends_is_dropped_and_the_next_delivered(
    line: Line, begin: Callable[[Line], Callable[[], None]], spark_jobs: int, caplog: pytest.LogCaptureFixture
) -> None:
    """It is neither given to Spark any more nor registered."""
    go_on = begin(line)
    line.assignment.end()
    go_on()
    line.wait_empty()
    assert line.writer.batches == spark_jobs
    assert line.in_catalog == set()
    assert caplog.text.count("1 files of revoked partitions dropped") == spark_jobs
    heir = line.assign(B, P2)
    line.batch(one(7, tp=P2), of=heir)
    assert line.delivered(heir)
    assert line.in_catalog == line.keys_of(B) != set()
    assert not line.assignment.is_delivered


def test_what_comes_late_from_an_assignment_that_has_ended_is_not_looked_at(line: Line) -> None:
    line.assignment.end()
    line.batch(bad(1))
    line.wait_empty()
    assert not line.flow.wait_delivered(line.assignment, PATIENCE), "nobody waits for it"
    assert line.flow.failure is None
    assert (line.writer.batches, line.store.tried, line.states()) == (0, [], ["done"])


# --- the writer starts ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batches", [0, 2])
def test_a_writer_that_cannot_start_fails_the_pipeline_also_without_a_batch(new_line: NewLine, batches: int) -> None:
    writer_up: Future[None] = Future()
    line = new_line(writer_up=writer_up)
    line.batches(*range(1, batches + 1))
    error = ConfigError("starting Spark", "no Java", "Install one")
    writer_up.set_exception(error)
    assert line.failure() is error
    assert line.writer.batches == 0
    assert line.rows() == []


# --- failures -------------------------------------------------------------------------------------------------------


UNFORESEEN = "writing a batch: ZeroDivisionError. Please report this as a bug"


def fail_at(line: Line, step: str, error: Exception) -> None:
    def fail(*_: object) -> None:
        raise error

    hooks = {"write": (line.writer, "before"), "upload": (line.store, "refuse"), "register": (line.catalog, "refuse")}
    setattr(*hooks[step], fail)


def assert_failed(line: Line, kind: type[ConnectorError], told: str) -> None:
    failure = line.failure()
    assert type(failure) is kind
    assert told in str(failure)
    assert line.assignment.partitions[P0].written == 2
    line.member.stop()
    assert [len(files) for files in line.catalog.requests] == [1]
    assert {3, 4}.isdisjoint(line.values())


@pytest.mark.parametrize(
    ("step", "error", "told"),
    [
        ("write", SparkLostError("writing a batch", "the Java process is gone"), "the Java process is gone"),
        ("upload", FatalError("uploading x", "access denied"), "access denied"),
        ("register", FatalError("registering files", "401 Unauthorized"), "401 Unauthorized"),
        *((step, ZeroDivisionError("oops"), UNFORESEEN) for step in ("write", "upload", "register")),
    ],
)
def test_a_lasting_failure_of_any_step_is_told_and_nothing_behind_it_delivered(
    line: Line, step: str, error: Exception, told: str
) -> None:
    line.batches(1)
    assert line.delivered()
    fail_at(line, step, error)
    line.batches(2, 3, 4)
    assert_failed(line, type(error) if isinstance(error, ConnectorError) else FatalError, told)


def test_a_record_that_cannot_be_staged_is_told_and_nothing_behind_it_delivered(line: Line) -> None:
    line.batches(1)
    assert line.delivered()
    line.batch(bad(2))
    line.batches(3, 4)
    assert_failed(line, DataError, "sensors[0] at offset 3")


def test_a_failure_lets_arrive_what_is_ahead_of_it(line: Line) -> None:
    """What is ahead can then be committed; a start that fails at the same place again does not write it anew."""
    gate = Gate()
    line.store.refuse = gate
    line.batches(1, 2)
    gate.wait_reached()
    line.batch(bad(3))
    wait_until(lambda: "stage" not in own_threads(), "batch 3 has failed")
    assert line.flow.failure is None
    gate.open()
    line.failure()
    assert line.values() == [1, 2]
    assert line.assignment.partitions[P0].written == 3


def test_the_failure_of_the_earliest_batch_is_the_one_that_is_told_and_ends_a_wait(line: Line) -> None:
    gate = Gate()

    def fail(_: int) -> None:
        gate()
        raise FatalError("writing a batch", "the disk is full")

    line.writer.before = fail
    line.batches(1)
    line.batch(bad(2))
    gate.wait_reached()
    gate.open()
    assert not line.flow.wait_delivered(line.assignment, PATIENCE)
    assert "the disk is full" in str(line.flow.failure)


def test_a_full_folder_is_told_where_indexes_are_written_too(
    new_line: NewLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("app.parts.quix.virtual_index.write_index", full)
    line = new_line(virtual=["q"])
    line.batch(piece({"p": "a", "q": "x", "v": 1}))
    assert "TMPDIR" in str(line.failure())
