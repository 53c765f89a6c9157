"""The pipeline while store or catalog is away, when assignments end meanwhile, and when it is stopped."""

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from app.errors import ConnectorError, FatalError, RetryableError
from app.model import Batch, TopicPartition
from tests.support.batches import TP, batch, batch_of, row
from tests.unit.pipeline.pipeline_line import HURRY, Gate, Line, one, own_threads, wait_until

OTHER = TopicPartition("sensors", 1)


@pytest.fixture
def line(tmp_path: Path) -> Iterator[Line]:
    line = Line(tmp_path)
    yield line
    line.pipeline.stop()


# --- trying again ---------------------------------------------------------------------------------------------------


def test_an_upload_is_tried_until_it_works_and_only_missing_files_again(line: Line) -> None:
    tries: dict[str, int] = {}
    lock = threading.Lock()

    def refuse(key: str) -> ConnectorError | None:
        with lock:
            tries[key] = tries.get(key, 0) + 1
        refused = "/p=b/" in key and tries[key] < 5
        return RetryableError(f"uploading {key}", "503 Slow Down") if refused else None

    line.store.refuse = refuse
    line.submit(batch({"p": "a", "v": 1}, {"p": "b", "v": 2}, {"p": "c", "v": 3}))
    assert line.delivered(1)
    assert sorted(tries.values()) == [1, 1, 5]
    assert len(line.catalog.keys) == 3
    assert line.values() == [1, 2, 3]


def test_a_registration_is_tried_until_it_works_without_uploading_again(line: Line) -> None:
    refusals = [RetryableError("registering files", "503")] * 4
    line.catalog.refuse = lambda: refusals.pop() if refusals else None
    line.submit(one(1))
    assert line.delivered(1)
    assert len(line.store.tried) == 1
    assert len(line.catalog.keys) == 1


def test_the_obstacle_is_told_while_it_lasts(line: Line) -> None:
    away = RetryableError("uploading x", "no route to host")
    line.store.refuse = lambda _: away
    line.submit(one(1))
    wait_until(lambda: line.pipeline.obstacle is away)
    assert line.pipeline.failure is None
    assert not line.pipeline.wait_delivered(1, 0.0)
    line.store.refuse = lambda _: None
    assert line.delivered(1)
    assert line.pipeline.obstacle is None


def test_a_wait_names_the_system_that_is_away_and_ends_with_it(line: Line) -> None:
    def waits() -> list[str | None]:
        return [trouble.system for trouble in line.pipeline._metrics.waits.current()]

    line.store.refuse = lambda key: RetryableError(f"uploading {key}", "503")
    line.submit(one(1))
    wait_until(lambda: waits() == ["store"])
    line.catalog.refuse = lambda: RetryableError("registering files", "503")
    line.store.refuse = lambda _: None
    wait_until(lambda: waits() == ["catalog"])
    line.catalog.refuse = lambda: None
    assert line.delivered(1)
    assert waits() == []


def test_an_answer_that_did_not_come_in_time_is_part_of_the_wait(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.pipeline.pipeline.OUTAGE_SECONDS", 0.1)

    def refuse(key: str) -> ConnectorError:
        time.sleep(0.2)
        return RetryableError(f"uploading {key}", "no answer")

    line.store.refuse = refuse
    line.submit(one(1))
    wait_until(lambda: line.pipeline.obstacle is not None)
    [trouble] = line.pipeline._metrics.waits.current()
    assert trouble.seconds >= 0.2
    line.store.refuse = lambda _: None
    assert line.delivered(1)


def test_a_wait_is_no_part_of_a_steps_time(tmp_path: Path) -> None:
    pause = 0.5
    refusals = [RetryableError("uploading x", "503", retry_after=pause)]
    line = Line(tmp_path, timings=replace(HURRY, longest_retry_seconds=pause))
    line.store.refuse = lambda _: refusals.pop() if refusals else None
    begin = time.monotonic()
    line.submit(one(1))
    assert line.delivered(1)
    [delivered] = line.pipeline._metrics.counts().last_batches
    assert sum(delivered.seconds.values()) < time.monotonic() - begin - pause
    line.pipeline.stop()


def test_a_lasting_error_after_a_passing_one_is_a_failure(line: Line) -> None:
    errors: list[ConnectorError] = [RetryableError("uploading x", "503"), FatalError("uploading x", "access denied")]
    line.store.refuse = lambda _: errors.pop(0)
    line.submit(one(1))
    assert "access denied" in str(line.failure())


# --- assignments that end -------------------------------------------------------------------------------------------


def of_owner(owner: str, number: int) -> Batch:
    rows = {tp: [row({"p": "a", "v": number}, number)] for tp in (TP, OTHER)}
    return batch_of(rows, number=number, owners=dict.fromkeys(rows, owner))


def test_a_batch_of_an_ended_assignment_is_dropped_and_the_next_delivered(
    line: Line, caplog: pytest.LogCaptureFixture
) -> None:
    line.ended.add("gone0000")
    with caplog.at_level("INFO"):
        line.submit(of_owner("gone0000", 1), of_owner("mine0000", 2))
        assert line.delivered(2)
    assert line.values() == [2, 2]
    assert ["mine0000" in key for key in line.catalog.keys] == [True]
    assert "1 files of revoked partitions dropped" in caplog.text
    assert list(line.scratch.iterdir()) == []


def test_a_batch_of_an_ended_assignment_registers_nothing(line: Line) -> None:
    line.ended.add("gone0000")
    line.submit(of_owner("gone0000", 1))
    assert line.delivered(1)
    assert line.rows() == []
    assert line.catalog.requests == []
    assert line.catalog.created == []


def test_an_assignment_that_ends_while_the_catalog_is_away_is_not_registered_later(line: Line) -> None:
    line.catalog.refuse = lambda: RetryableError("registering files", "503")
    line.submit(of_owner("gone0000", 1))
    wait_until(lambda: line.pipeline.obstacle is not None)
    line.ended.add("gone0000")
    line.catalog.refuse = lambda: None
    assert line.delivered(1)
    assert line.catalog.keys == []


# --- the end --------------------------------------------------------------------------------------------------------


def test_a_stop_ends_all_threads_of_an_idle_pipeline(line: Line) -> None:
    line.submit(one(1))
    assert line.delivered(1)
    assert own_threads() >= {"stage", "write", "deliver"}
    line.pipeline.stop()
    wait_until(lambda: own_threads() == set())


def test_a_stop_ends_all_threads_while_a_store_is_away(line: Line) -> None:
    line.store.refuse = lambda key: RetryableError(f"uploading {key}", "no route to host", retry_after=60)
    line.submit(*(one(number) for number in range(1, 9)))
    wait_until(lambda: line.pipeline.obstacle is not None)
    line.pipeline.stop()
    wait_until(lambda: own_threads() == set())


def test_a_stop_ends_all_threads_while_uploads_wait_for_their_turn(line: Line) -> None:
    gate = Gate()
    line.store.refuse = gate
    line.submit(batch(*({"p": str(number), "v": number} for number in range(10))))
    gate.wait_reached()
    line.pipeline.stop()
    gate.open()
    wait_until(lambda: own_threads() == set())
    assert line.catalog.requests == []


def test_nothing_of_a_batch_leaves_the_machine_once_its_topic_was_recreated(tmp_path: Path) -> None:
    asked: list[TopicPartition] = []
    answers: list[ConnectorError | None] = [None, RetryableError("consuming", "the topic was made anew")]

    def recreated(tps: Sequence[TopicPartition]) -> ConnectorError | None:
        asked.extend(tps)
        return answers.pop(0)

    line = Line(tmp_path, recreated=recreated)
    line.submit(one(1), one(2))
    assert line.failure().exit_code == 75
    assert line.values() == [1]
    assert [name for name in line.store.tried if "2-2" in name] == []
    assert len(asked) == 2
    line.pipeline.stop()


def test_whether_a_topic_was_recreated_is_asked_until_kafka_answers(tmp_path: Path) -> None:
    errors = [RetryableError("asking", "no route to host")] * 2

    def recreated(_: Sequence[TopicPartition]) -> None:
        if errors:
            raise errors.pop()

    line = Line(tmp_path, recreated=recreated)
    line.submit(one(1))
    assert line.delivered(1)
    assert line.values() == [1]
    line.pipeline.stop()
