"""The three threads between the sink and the lake: order, overlap, memory and failures."""

import queue
import re
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import pytest

from app.errors import ConfigError, ConnectorError, DataError, FatalError, SparkLostError
from app.model import Batch
from tests.support.batches import TP, UNBOUNDED, batch, batch_of, row
from tests.support.waiting import PATIENCE, wait_until
from tests.unit.pipeline.pipeline_line import ROOT, Gate, Line, NewLine, bad, one, own_threads


def wait_staged(line: Line) -> None:
    wait_until(lambda: line.pipeline.held_bytes == 0, "all rows are staged")


# --- all goes well --------------------------------------------------------------------------------------------------


def test_rows_reach_the_lake_and_their_files_the_catalog(line: Line) -> None:
    line.submit(batch({"p": "a", "v": 1}, {"p": "b", "v": 2}, {"p": "a", "v": 3}, first=40))
    assert line.delivered(1)
    name = "data_sensors-0_0000000000000000040-42_0a1b2c3d4e5f607100000003-1.parquet"
    assert line.catalog.keys == [f"{ROOT}/p=a/{name}", f"{ROOT}/p=b/{name}"]
    assert [values["v"] for values in line.rows()] == [1, 3, 2]
    files = line.catalog.requests[0]
    assert [(file.rows, dict(file.partition_values)) for file in files] == [(2, {"p": "a"}), (1, {"p": "b"})]
    for file in files:
        assert file.uri == f"{line.store.uri}/{file.key}"
        assert file.size == (line.lake / file.key).stat().st_size


def test_a_batch_is_prepared_and_another_written_while_one_is_uploaded(line: Line) -> None:
    uploading, writing = Gate(), Gate()
    line.store.refuse = uploading
    line.writer.before = lambda number: writing() if number == 1 else None
    line.submit(one(1, size=100), one(2, size=200), one(3, size=400))
    uploading.wait_reached()
    writing.wait_reached()
    wait_staged(line)
    assert (line.scratch / "batch-3" / "staged.parquet").exists()
    assert not line.pipeline.wait_delivered(1, 0.0)
    uploading.open()
    writing.open()
    assert line.delivered(3)


def test_the_bytes_of_a_batch_are_held_until_it_is_staged(line: Line) -> None:
    gate = Gate()
    line.writer.before = gate
    line.submit(one(1, size=100))
    gate.wait_reached()
    wait_staged(line)
    line.submit(one(2, size=200), one(3, size=400), one(4, size=800), one(5, size=1_600))
    # Batch 2 waits for the writer, batch 3 for its place, and the rows of the others for the thread that stages.
    wait_until(lambda: line.pipeline.held_bytes == 2_400, "batch 3 is staged")
    gate.open()
    assert line.delivered(5)
    assert line.pipeline.held_bytes == 0


def test_the_writer_is_idle_unless_a_batch_waits_for_it(line: Line) -> None:
    gate = Gate()
    assert line.pipeline.is_idle
    line.writer.before = gate
    line.submit(one(1))
    gate.wait_reached()
    assert line.pipeline.is_idle, "a batch submitted now is staged while the writer is busy"
    line.submit(one(2))
    assert not line.pipeline.is_idle
    gate.open()
    assert line.delivered(2)
    assert line.pipeline.is_idle


def test_a_batch_waits_for_the_next_step_however_long_that_takes(
    new_line: NewLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals: list[object] = []

    class Impatient(queue.Queue[object]):
        def put(self, item: object, block: bool = True, timeout: float | None = None) -> None:
            try:
                super().put(item, timeout=0.001)
            except queue.Full:
                refusals.append(item)
                raise

    monkeypatch.setattr("app.pipeline.in_flight.queue.Queue", Impatient)
    line: Line = new_line()
    uploading = Gate()
    line.store.refuse = uploading
    line.submit(*(one(number) for number in range(1, 6)))
    uploading.wait_reached()
    wait_until(lambda: len(refusals) > 2, "the steps before wait")
    uploading.open()
    assert line.delivered(5)
    assert line.values() == [1, 2, 3, 4, 5]


# --- portions of a batch --------------------------------------------------------------------------------------------


def portion(number: int, *values: dict[str, Any], reason: str | None = None) -> Batch:
    """Rows with the offsets from ten times the number on."""
    return replace(batch(*values, first=number * 10, number=number), reason=reason)


def test_portions_are_gathered_into_the_files_of_one_batch(line: Line) -> None:
    line.submit(portion(1, {"p": "a", "v": 1}), portion(2, {"p": "a", "v": 2}, {"p": "b", "v": 3}))
    wait_staged(line)
    assert line.rows() == []
    assert line.pipeline.is_idle, "a batch that is gathered does not wait for the writer"
    assert line.pipeline.under_way == 1
    assert not line.pipeline.wait_delivered(1, 0.0)
    line.submit(portion(3, {"p": "a", "v": 4}, reason="enough"))
    assert line.delivered(3)
    name = "data_sensors-0_0000000000000000010-30_0a1b2c3d4e5f607100000003-1.parquet"
    assert line.catalog.keys == [f"{ROOT}/p=a/{name}", f"{ROOT}/p=b/{name}"]
    assert line.values() == [1, 2, 3, 4]
    assert line.pipeline.under_way == 0


def test_a_batch_may_end_after_its_last_portion(line: Line) -> None:
    line.submit(portion(1, {"p": "a", "v": 1}), Batch(2, "enough"))
    assert line.delivered(2)
    assert line.values() == [1]


def test_the_end_of_a_batch_without_rows_is_no_batch(line: Line, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        line.submit(Batch(1, "enough"), portion(2, {"p": "a", "v": 1}, reason="enough"))
        assert line.delivered(2)
    assert len(re.findall(r"batch \d", caplog.text)) == 1
    assert list(line.scratch.iterdir()) == []


def test_rows_of_another_type_begin_another_batch(line: Line, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        line.submit(
            portion(1, {"p": "a", "v": 1}), portion(2, {"p": "a", "v": 1.5}), portion(3, {"p": "a", "v": 2}, reason="x")
        )
        assert line.delivered(3)
    assert line.values() == [1, 1.5, 2]
    assert re.findall(r"batch (\d) \((.*?)\)", caplog.text) == [("1", "a column's type changed"), ("2", "x")]
    assert [len(request) for request in line.catalog.requests] == [1, 1]


def test_rows_of_another_assignment_begin_another_batch(line: Line, caplog: pytest.LogCaptureFixture) -> None:
    def of_owner(number: int, owner: str, reason: str | None = None) -> Batch:
        return replace(
            batch_of({TP: [row({"p": "a", "v": number}, number)]}, number=number, owners={TP: owner}), reason=reason
        )

    with caplog.at_level("INFO"):
        line.submit(of_owner(1, "first000"), of_owner(2, "second00"), of_owner(3, "second00", "enough"))
        assert line.delivered(3)
    assert re.findall(r"batch (\d) \((.*?)\)", caplog.text) == [
        ("1", "a new assignment of the partitions"),
        ("2", "enough"),
    ]
    assert line.catalog.keys == [
        f"{ROOT}/p=a/data_sensors-0_0000000000000000001-1_first000-1.parquet",
        f"{ROOT}/p=a/data_sensors-0_0000000000000000002-3_second00-2.parquet",
    ]


def test_portions_before_a_record_that_ends_the_process_arrive(line: Line) -> None:
    line.submit(portion(1, {"p": "a", "v": 1}), portion(2, {"p": "a", "v": 2}), bad(3))
    assert line.failure()
    assert line.values() == [1, 2]
    assert line.pipeline.wait_delivered(2, 0.0)
    assert not line.pipeline.wait_delivered(3, 0.0)


def test_a_batch_ends_by_itself_when_its_staged_file_is_large(new_line: NewLine) -> None:
    line: Line = new_line(limits=replace(UNBOUNDED, max_staged_bytes=1))
    line.submit(portion(1, {"p": "a", "v": 1}), portion(2, {"p": "a", "v": 2}))
    assert line.delivered(2)
    assert line.values() == [1, 2]
    assert len(line.catalog.requests) == 2


def test_a_batch_ends_by_itself_when_its_files_are_large_enough(new_line: NewLine) -> None:
    line: Line = new_line(limits=replace(UNBOUNDED, target_file_bytes=1))
    line.submit(portion(1, {"p": "a", "v": 1}), portion(2, {"p": "a", "v": 2}, reason="how large files are is unknown"))
    assert line.delivered(2)
    line.submit(portion(3, {"p": "a", "v": 3}))
    assert line.delivered(3)
    assert line.values() == [1, 2, 3]


def test_a_disk_that_is_nearly_full_ends_the_batch_and_is_waited_for(
    new_line: NewLine, caplog: pytest.LogCaptureFixture
) -> None:
    # As if the files of the first batch took all the room.
    line: Line = new_line(free_bytes=lambda folder: 0 if any(folder.glob("batch-1/*")) else 2**40)
    uploading = Gate()
    line.store.refuse = uploading
    with caplog.at_level("INFO"):
        line.submit(portion(1, {"p": "a", "v": 1}), portion(2, {"p": "a", "v": 2}, reason="enough"))
        uploading.wait_reached()
        assert line.pipeline.held_bytes > 0, "the second portion waits"
        uploading.open()
        assert line.delivered(2)
    assert line.values() == [1, 2]
    assert re.findall(r"batch (\d) \((.*?)\)", caplog.text) == [
        ("1", "little room in the temporary folder"),
        ("2", "enough"),
    ]
    assert f"the temporary folder {line.scratch} is nearly full" in caplog.text


def test_a_disk_that_stays_full_is_tried_once_nothing_is_under_way(new_line: NewLine) -> None:
    line: Line = new_line(free_bytes=lambda _: 0)
    line.submit(portion(1, {"p": "a", "v": 1}), portion(2, {"p": "a", "v": 2}, reason="enough"))
    assert line.delivered(2)
    assert line.values() == [1, 2]


# --- the writer starts ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batches", [0, 2])
def test_a_writer_that_cannot_start_fails_the_pipeline_also_without_a_batch(new_line: NewLine, batches: int) -> None:
    writer_up: Future[None] = Future()
    line: Line = new_line(writer_up=writer_up)
    line.submit(*(one(number) for number in range(1, batches + 1)))
    error = ConfigError("starting Spark", "no Java", "Install one")
    writer_up.set_exception(error)
    assert line.failure() is error
    assert line.writer.batches == 0
    assert line.rows() == []


# --- failures -------------------------------------------------------------------------------------------------------


UNFORESEEN = "writing a batch: ZeroDivisionError('oops'). Please report this as a bug"


def fail_at(line: Line, step: str, error: Exception) -> None:
    """From now on the step fails so."""

    def fail(*_: object) -> None:
        raise error

    hooks = {"write": (line.writer, "before"), "upload": (line.store, "refuse"), "register": (line.catalog, "refuse")}
    setattr(*hooks[step], fail)


def assert_failed(line: Line, kind: type[ConnectorError], told: str) -> None:
    failure = line.failure()
    assert type(failure) is kind
    assert told in str(failure)
    assert not line.pipeline.wait_delivered(2, 0.0)
    line.pipeline.stop()
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
    line.submit(one(1))
    assert line.delivered(1)
    fail_at(line, step, error)
    line.submit(one(2), one(3), one(4))
    assert_failed(line, type(error) if isinstance(error, ConnectorError) else FatalError, told)


def test_a_record_that_cannot_be_staged_is_told_and_nothing_behind_it_delivered(line: Line) -> None:
    line.submit(one(1))
    assert line.delivered(1)
    line.submit(bad(2), one(3), one(4))
    assert_failed(line, DataError, "sensors[0] at offset 3")


def test_a_failure_lets_arrive_what_is_ahead_of_it(line: Line) -> None:
    """What is ahead can then be committed; a start that fails at the same place again does not write it anew."""
    gate = Gate()
    line.store.refuse = gate
    line.submit(one(1), one(2))
    gate.wait_reached()
    line.submit(bad(3))
    wait_until(lambda: "stage" not in own_threads(), "batch 3 has failed")
    assert not line.pipeline.wait_delivered(3, 0.0)
    assert line.pipeline.failure is None
    gate.open()
    line.failure()
    assert line.values() == [1, 2]
    assert line.pipeline.wait_delivered(2, 0.0)


def test_the_failure_of_the_earliest_batch_is_the_one_that_is_told_and_ends_a_wait(line: Line) -> None:
    gate = Gate()

    def fail(_: int) -> None:
        gate()
        raise FatalError("writing a batch", "the disk is full")

    line.writer.before = fail
    line.submit(one(1), bad(2))
    gate.wait_reached()
    gate.open()
    assert not line.pipeline.wait_delivered(1, PATIENCE)
    assert "the disk is full" in str(line.pipeline.failure)
