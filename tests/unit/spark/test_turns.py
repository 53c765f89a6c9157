"""Jobs of several tables in turn, as Spark would run them: late ones, and those that do not end."""

from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from threading import Event

import pytest

from app.spark.turns import Turns
from tests.support.waiting import PATIENCE, wait_for

NEVER, SHORT = 10 * PATIENCE, 0.25


class Played:
    """Turns whose jobs end when the test lets them, or once they are cancelled if they ``heed`` that."""

    def __init__(self, seconds: float, *, heeds: bool = True) -> None:
        self.turns = Turns(seconds, self._cancel, SHORT if not heeds else NEVER)
        self.order: list[str] = []
        self.is_cancelled = Event()
        self.heeds = heeds
        self.tables = ThreadPoolExecutor(8)

    def _cancel(self, name: str) -> None:
        self.order.append(f"cancel {name}")
        if self.heeds:
            self.is_cancelled.set()

    def brings(self, table: str, ending: Callable[[], object]) -> tuple[Event, Future[str]]:
        """Let a table bring a job; returns when it begins, and its result."""
        begun = Event()

        def job(name: str) -> str:
            self.order.append(f"{table} as {name}")
            begun.set()
            ending()
            return table

        return begun, self.tables.submit(self.turns.run, job)

    def is_cancelled_in_time(self) -> None:
        wait_for(self.is_cancelled, "the job is cancelled")
        raise ValueError("Spark: cancelled")


@pytest.fixture
def gate() -> Iterator[Event]:
    gate = Event()
    yield gate
    gate.set()


def test_the_time_of_a_job_begins_with_the_job_and_not_while_others_have_their_turn(gate: Event) -> None:
    played = Played(SHORT, heeds=False)
    begun, slow = played.brings("slow", lambda: wait_for(gate, "the test opens the gate"))
    wait_for(begun, "the first job")
    waiting = [played.brings(table, lambda: None)[1] for table in "abcd"]
    with pytest.raises(TimeoutError):
        slow.result(PATIENCE)
    assert not any(job.done() for job in waiting), "they have waited for longer than a job may take"
    gate.set()
    assert [job.result(PATIENCE) for job in waiting] == [*"abcd"]


def test_a_late_job_is_cancelled_alone_and_the_next_table_has_its_turn() -> None:
    played = Played(SHORT)
    begun, late = played.brings("late", played.is_cancelled_in_time)
    wait_for(begun, "the late job")
    _, after = played.brings("after", lambda: None)
    with pytest.raises(CancelledError):
        late.result(PATIENCE)
    assert after.result(PATIENCE) == "after"
    assert played.order == ["late as 1", "cancel 1", "after as 2"]


def test_a_late_job_that_ends_well_nevertheless_has_its_result() -> None:
    played = Played(SHORT)
    _, late = played.brings("late", lambda: wait_for(played.is_cancelled, "the job is cancelled"))
    assert late.result(PATIENCE) == "late"


@pytest.mark.parametrize("cancelling", ["is ignored", "hangs too"])
def test_a_late_job_that_does_not_end_is_told(gate: Event, cancelling: str) -> None:
    played = Played(SHORT, heeds=False)
    if cancelling == "hangs too":
        played.turns = Turns(SHORT, lambda _: wait_for(gate, "the end of the test"), SHORT)
    _, late = played.brings("late", lambda: wait_for(gate, "the end of the test"))
    with pytest.raises(TimeoutError):
        late.result(PATIENCE)


def test_an_error_of_a_job_is_its_own() -> None:
    def fails() -> None:
        raise ValueError("no space left")

    _, job = Played(NEVER).brings("a", fails)
    with pytest.raises(ValueError, match="no space left"):
        job.result(PATIENCE)
