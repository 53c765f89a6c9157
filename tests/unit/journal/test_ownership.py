"""Whose files may be stored and registered, with the logs of several generations side by side."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from app.journal.ownership import JournalOwnership

from app.errors import ConnectorError, FatalError, RetryableError
from app.journal.journal import FencedError, LogClosedError
from app.model import TopicPartition
from app.service.build import new_ownership
from app.timings import Timings
from tests.support.waiting import PATIENCE, join, wait_until
from tests.unit.journal import journal_bench
from tests.unit.journal.journal_bench import P0, P1, P2, intent, key_of

A, B = "aaaaaaaa", "bbbbbbbb"
TPS = {A: [P0, P1], B: [P2]}
AWAY = RetryableError("writing s3://lake/x", "503")
DENIED = FatalError("writing s3://lake/x", "access denied")
FRESH = 10.0


class Bench:
    """Ownership of two generations, the first one with two partitions."""

    def __init__(self, tmp_path: Path) -> None:
        self.journals = journal_bench.Bench(tmp_path)
        self.store, self.clock = self.journals.store, self.journals.clock
        self.ended: set[str] = set()
        self.reports: list[tuple[str, FencedError]] = []
        self.asked: list[tuple[str, str]] = []
        self.generations = {token: self.journals.begun(token, tps) for token, tps in TPS.items()}
        self.ownership = self.ownership_of(A, B)
        self.store.on_small = lambda what, key: self.asked.append((what, key))

    def ownership_of(
        self,
        *tokens: str,
        is_current: Callable[[str], bool] | None = None,
        on_fenced: Callable[[str, FencedError], None] | None = None,
    ) -> JournalOwnership:
        ownership = JournalOwnership(
            is_current or (lambda token: token not in self.ended),
            on_fenced or (lambda *told: self.reports.append(told)),
            fresh_seconds=FRESH,
        )
        for token in tokens:
            ownership.take(self.generations[token])
        return ownership

    def take_over(self, tp: TopicPartition = P0) -> None:
        """Another member claims the partition."""
        self.journals.claimed("ffffffff", [tp])

    def batch(self, token: str = A, number: int = 0, end: int = 9) -> bool:
        """Announce a batch of all partitions; if it is ours, it is registered at once."""
        is_ours = self.ownership.intend(
            token, intent(f"{token}{number}", batch=number, ends=dict.fromkeys(TPS[token], end))
        )
        if is_ours:
            self.ownership.registered(token, number)
        return is_ours

    def state(self, token: str = A) -> str:
        return self.journals.log(token).state

    @property
    def fenced(self) -> list[str]:
        return [token for token, _ in self.reports]


STEPS: dict[str, Callable[[Bench], bool | None]] = {
    "intend": lambda bench: bench.batch(number=1),
    "is_owner": lambda bench: bench.ownership.is_owner(A),
    "confirm": lambda bench: bench.ownership.confirm(A),
    "done": lambda bench: bench.ownership.done(),
    "advance": lambda bench: bench.ownership.advance(A, {P0: 9}),
}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


# --- all is ours ----------------------------------------------------------------------------------------------------


def test_offsets_without_rows_say_in_the_same_write_that_the_batch_before_is_done(bench: Bench) -> None:
    bench.batch()
    before = bench.journals.log(A)
    bench.ownership.advance(A, {P0: 20})
    log = bench.journals.log(A)
    assert (log.seq, log.state, bench.journals.end(A, P0)) == (before.seq + 1, "done", 20)
    bench.ownership.done()
    assert bench.journals.log(A) == log


def test_a_batch_carries_how_far_was_read_beyond_its_rows(bench: Bench) -> None:
    bench.ownership.intend(A, replace(intent("1"), ends={P0: 20, P1: 30}))
    assert [bench.journals.end(A, tp) for tp in (P0, P1)] == [-1, -1], "it may be rolled back"
    bench.journals.store_files("1")
    bench.ownership.registered(A, 0)
    bench.ownership.done()
    assert [bench.journals.end(A, tp) for tp in (P0, P1)] == [20, 30]


# --- not ours any more ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", STEPS)
def test_being_fenced_is_found_out_at_any_step_and_reported_once_with_the_reason(bench: Bench, step: str) -> None:
    bench.batch()
    bench.take_over()
    bench.clock.advance(FRESH + 0.1)
    for each in (step, *STEPS):
        assert not STEPS[each](bench)
    assert bench.fenced == [A]
    assert isinstance(bench.reports[0][1], LogClosedError)


def test_a_generation_that_ended_is_left_out_without_a_word(bench: Bench) -> None:
    bench.batch()
    bench.ended.add(A)
    bench.asked.clear()
    assert not bench.ownership.is_owner(A)
    assert not bench.ownership.confirm(A)
    assert not bench.batch(number=1)
    bench.ownership.advance(A, {P0: 50})
    bench.ownership.sweep()
    bench.ownership.done()
    assert (bench.asked, bench.reports, bench.state()) == ([], [], "pending")


def test_a_generation_that_is_not_claimed_owns_nothing(bench: Bench) -> None:
    assert not bench.ownership.intend("dddddddd", intent("1"))
    assert not bench.ownership.confirm("dddddddd")
    assert not bench.ownership.is_owner("dddddddd")


def test_a_generation_fenced_while_others_are_asked_disturbs_them_not(bench: Bench) -> None:
    """Uploads, batches and the consumer ask on threads of their own."""
    asking = False

    def is_current(_: str) -> bool:
        nonlocal asking
        if asking:
            asking = False
            assert not ownership.is_owner(B), "found out in the midst of another question"
        return True

    ownership = bench.ownership_of(A, B, is_current=is_current)
    bench.take_over(P2)
    bench.clock.advance(31)
    asking = True
    ownership.sweep()
    assert bench.fenced == [B]
    assert ownership.confirm(A)


def test_being_fenced_is_reported_once_when_several_uploads_find_out_at_once(bench: Bench) -> None:
    both_asked = threading.Barrier(2, timeout=PATIENCE)
    ownership = bench.ownership_of(A, is_current=lambda _: both_asked.wait() >= 0)
    bench.take_over()
    bench.clock.advance(31)
    with ThreadPoolExecutor(2) as uploads:
        assert list(uploads.map(ownership.is_owner, [A, A])) == [False, False]
    assert bench.fenced == [A]


class SeenLock:
    """A lock that says when it is asked for."""

    def __init__(self) -> None:
        self._lock, self.asked = threading.Lock(), 0

    def __enter__(self) -> None:
        self.asked += 1
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_no_thread_drops_rows_before_the_fence_is_reported(bench: Bench) -> None:
    """A batch that is dropped counts as delivered: only the fence prevents the commit of its offsets."""
    answers: list[bool] = []
    dropped_before: list[bool] = []
    delivers = threading.Thread(target=lambda: answers.append(ownership.confirm(A)))

    def on_fenced(*_: object) -> None:
        delivers.start()
        wait_until(lambda: answers or lock.asked == 2, "the thread waits for the report, or has an answer")
        dropped_before.extend(answers)

    ownership = bench.ownership_of(A, on_fenced=on_fenced)
    ownership._lock = lock = SeenLock()  # type: ignore[assignment]
    bench.take_over()
    ownership.advance(A, {P0: 9})
    join(delivers)
    assert dropped_before == []
    assert answers == [False]


# --- a fresh look before an upload ----------------------------------------------------------------------------------


def test_only_an_upload_long_after_the_last_look_looks_again(bench: Bench) -> None:
    bench.batch()
    bench.asked.clear()
    bench.clock.advance(FRESH)
    assert bench.ownership.is_owner(A)
    assert bench.asked == []
    bench.clock.advance(0.1)
    assert bench.ownership.is_owner(A)
    assert bench.ownership.is_owner(A)
    assert bench.asked == [("read", bench.journals.log_key(A))]


def test_a_process_frozen_for_less_than_its_session_looks_too(bench: Bench) -> None:
    """Its last heartbeat may be older than its last look: others may have taken over already."""
    assignments: Any = SimpleNamespace(is_current=lambda _: True, fence=lambda *_: None)
    ownership = new_ownership(assignments, Timings())
    ownership.take(bench.generations[A])
    bench.take_over()
    bench.clock.advance(15)
    assert not ownership.is_owner(A)


# --- the store says no ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [AWAY, DENIED])
@pytest.mark.parametrize("step", STEPS)
def test_after_an_error_the_same_can_be_repeated(bench: Bench, error: ConnectorError, step: str) -> None:
    bench.batch()
    before = bench.journals.log(A)
    bench.clock.advance(FRESH + 0.1)
    bench.store.refuse_small = lambda _: error
    with pytest.raises(type(error)):
        STEPS[step](bench)
    assert bench.journals.log(A) == before
    bench.store.refuse_small = lambda _: None
    assert STEPS[step](bench) in (True, None)
    assert bench.journals.log(A).seq == before.seq + (step not in ("is_owner", "confirm"))
    assert bench.reports == []


# --- rolled-back objects --------------------------------------------------------------------------------------------


def test_placeholders_of_all_generations_are_deleted_later(bench: Bench) -> None:
    for token, tps in TPS.items():
        bench.batch(token)
        generation = bench.journals.claimed(f"heir-{token}", tps)
        bench.ownership.take(generation)
    bench.store.deleted.clear()
    bench.ended |= {A, B}
    bench.journals.epoch.advance(3600)
    bench.ownership.sweep()
    assert sorted(bench.store.deleted) == [key_of(f"{A}0"), key_of(f"{B}0")]
