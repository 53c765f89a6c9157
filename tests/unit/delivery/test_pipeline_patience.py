"""The pipeline while store or catalog is away, and when it is stopped."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from app.errors import ConnectorError, RetryableError
from app.model import TopicPartition
from tests.fakes.clock import Clock
from tests.support.waiting import wait_until
from tests.unit.delivery.pipeline_line import HURRY, Gate, Line, NewLine, own_threads, piece

STORE_AWAY = RetryableError("uploading x", "no route to host")
CATALOG_AWAY = RetryableError("registering files", "503")


# --- trying again ---------------------------------------------------------------------------------------------------


def test_what_is_away_is_told_while_it_lasts(line: Line) -> None:
    def waits() -> list[str | None]:
        return [trouble.system for trouble in line.metrics.waits.current()]

    line.store.refuse = lambda _: STORE_AWAY
    line.batches(1)
    wait_until(lambda: line.flow.obstacle is STORE_AWAY and waits() == ["store"], "the store is away")
    assert line.flow.failure is None
    assert not line.assignment.is_delivered
    line.catalog.refuse = lambda: CATALOG_AWAY
    line.store.refuse = lambda _: None
    wait_until(lambda: waits() == ["catalog"], "the catalog is away")
    line.catalog.refuse = lambda: None
    assert line.delivered()
    assert line.flow.obstacle is None
    assert waits() == []


def test_a_wait_begins_with_an_answer_that_did_not_come_in_time_and_is_no_part_of_a_steps_time(
    new_line: NewLine,
) -> None:
    clock = Clock()
    line = new_line(timings=replace(HURRY, clock=clock))
    hangs = [30.0]

    def refuse(_: str) -> ConnectorError:
        if hangs:
            clock.advance(hangs.pop())
        return STORE_AWAY

    line.store.refuse = refuse
    line.batches(1)
    line.wait_for_obstacle()
    [trouble] = line.metrics.waits.current()
    assert trouble.seconds == 30
    line.store.refuse = lambda _: clock.advance(1)
    assert line.delivered()
    [delivered] = line.metrics.counts().last_batches
    assert sum(delivered.seconds.values()) == 1, "the try that worked"


# --- the end --------------------------------------------------------------------------------------------------------


def be_idle(line: Line) -> Callable[[], None]:
    line.batches(1)
    assert line.delivered()
    wait_until(lambda: own_threads() == set(), "an idle pipeline has no thread")
    return lambda: None


def wait_for_a_store(line: Line) -> Callable[[], None]:
    line.store.refuse = lambda key: RetryableError(f"uploading {key}", "no route to host", retry_after=60)
    line.batches(*range(1, 9))
    line.wait_for_obstacle()
    return lambda: None


def wait_for_a_turn(line: Line) -> Callable[[], None]:
    gate = Gate()
    line.store.refuse = gate
    line.batch(piece(*({"p": str(number), "v": number} for number in range(10))))
    gate.wait_reached()
    return gate.open


@pytest.mark.parametrize("begin", [be_idle, wait_for_a_store, wait_for_a_turn])
def test_a_stop_ends_all_threads(line: Line, begin: Callable[[Line], Callable[[], None]]) -> None:
    go_on = begin(line)
    registered = len(line.catalog.requests)
    line.member.stop()
    go_on()
    wait_until(lambda: own_threads() == set(), "all threads have ended")
    assert len(line.catalog.requests) == registered
    assert line.flow.failure is None


# --- topics that were recreated -------------------------------------------------------------------------------------


def test_nothing_of_a_batch_leaves_the_machine_once_its_topic_was_recreated(new_line: NewLine) -> None:
    asked: list[TopicPartition] = []
    answers: list[ConnectorError | None] = [None, RetryableError("consuming", "the topic was made anew")]

    def recreated(tps: Sequence[TopicPartition]) -> ConnectorError | None:
        asked.extend(tps)
        return answers.pop(0)

    line = new_line(recreated=recreated)
    line.batches(1, 2)
    assert line.failure().exit_code == 75
    assert line.values() == [1]
    assert [name for name in line.store.tried if "2-2" in name] == []
    assert len(asked) == 2


def test_a_batch_of_a_topic_that_was_deleted_is_dropped_once_its_partitions_are_revoked(new_line: NewLine) -> None:
    """Though another topic has a part in the batch: its records are read again."""

    def recreated(_: Sequence[TopicPartition]) -> None:
        raise RetryableError("asking Kafka for the id of the topic", "it does not exist").of("topic")

    line = new_line(recreated=recreated)
    line.batches(1)
    wait_until(lambda: line.flow.is_topic_missing, "the question for the topic")
    line.assignment.end()
    wait_until(lambda: line.flow.obstacle is None, "the end of the batch")
    assert line.flow.failure is None
    assert line.values() == []
