"""Whose files may be stored and registered, with the journals of several partitions side by side."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.errors import ConnectorError, FatalError, RetryableError
from app.journal.entry import JournaledFile, JournalEntry
from app.journal.journal import Intent, Journal
from app.journal.ownership import AssignmentOwnership, JournalOwnership
from app.service.build import new_ownership
from app.timings import Timings
from tests.fakes.clock import Clock
from tests.fakes.journal_store import JournalStore
from tests.support.environment import load
from tests.unit.journal.journal_bench import whole

A, B, C = "aaaaaaaa", "bbbbbbbb", "cccccccc"
ALL = (A, B, C)
AWAY = RetryableError("writing s3://lake/x", "503")
DENIED = FatalError("writing s3://lake/x", "access denied")
WAIT = 10.0
FRESH = 10.0


def key(token: str) -> str:
    return f"data/t/_journal/group/sensors/{ALL.index(token)}.json"


def intent(token: str, number: int = 0, end: int = 9) -> Intent:
    name = f"data/t/p=a/data_{token}_{number}.parquet"
    return Intent(number, end, (JournaledFile(key=name, size=10, rows=1, partition_values={"p": "a"}),), ())


def intents(*tokens: str, number: int = 0) -> dict[str, Intent]:
    return {token: intent(token, number) for token in tokens}


class Bench:
    """Ownership of three partitions, each with its journal in one folder."""

    def __init__(self, tmp_path: Path) -> None:
        self.store = JournalStore(tmp_path)
        self.clock = Clock()
        self.ended: set[str] = set()
        self.reports: list[tuple[str, str]] = []
        self.asked: list[tuple[str, str]] = []
        self.ownership = JournalOwnership(
            lambda token: token not in self.ended, self._tell, workers=3, fresh_seconds=FRESH
        )
        self.journals = {token: self.take(token) for token in ALL}
        self.store.on_small = lambda what, asked: self.asked.append((what, asked))

    def _tell(self, token: str, reason: str) -> None:
        self.reports.append((token, reason))

    def journal(self, partition_of: str, owner: str) -> Journal:
        return Journal(self.store, key(partition_of), owner, roots=("data/t/",), clock=self.clock)

    def take(self, token: str) -> Journal:
        journal = self.journal(token, token)
        journal.claim(lambda: True)
        journal.begin(-1, "")
        self.ownership.take(token, journal)
        return journal

    def take_over(self, token: str) -> None:
        """Another member claims the partition."""
        self.journal(token, "ffffffff").claim(lambda: True)

    def entry(self, token: str) -> JournalEntry:
        entry = self.store.entries(key(token))[-1]
        assert self.store.read(key(token)) is not None
        return entry

    def intend(self, intents: dict[str, Intent]) -> None:
        """Announce a batch; what of it is ours is registered at once."""
        self.ownership.intend(intents)
        self.ownership.registered(intents)

    def states(self) -> list[str]:
        return [self.entry(token).state for token in ALL]

    @property
    def fenced(self) -> list[str]:
        return [token for token, _ in self.reports]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.ownership.stop()


# --- all is ours ----------------------------------------------------------------------------------------------------


def test_a_batch_goes_its_way(bench: Bench) -> None:
    bench.intend(intents(A, B))
    assert bench.states() == ["pending", "pending", "done"]
    assert bench.ownership.is_owner(A)
    assert bench.ownership.confirm([A, B]) == {A, B}
    bench.ownership.done()
    assert bench.states() == ["done", "done", "done"]
    assert [bench.entry(token).end for token in ALL] == [9, 9, -1]
    assert bench.reports == []


def test_done_is_said_of_all_batches_since_the_last_time(bench: Bench) -> None:
    bench.intend(intents(A, B))
    bench.intend(intents(A, number=1))
    assert bench.states() == ["pending", "pending", "done"]
    bench.ownership.done()
    assert bench.states() == ["done", "done", "done"]


def test_done_said_again_asks_nothing_of_the_store(bench: Bench) -> None:
    bench.intend(intents(A))
    bench.ownership.done()
    bench.asked.clear()
    bench.ownership.done()
    assert bench.asked == []


def test_offsets_without_rows_move_the_ends(bench: Bench) -> None:
    bench.ownership.advance({A: 20, B: 30})
    assert [bench.entry(token).end for token in ALL] == [20, 30, -1]


@pytest.mark.parametrize(
    "step",
    [
        lambda ownership: ownership.intend(intents(*ALL)),
        lambda ownership: ownership.confirm(ALL),
        lambda ownership: ownership.advance(dict.fromkeys(ALL, 5)),
    ],
)
def test_journals_are_read_and_written_side_by_side(bench: Bench, step: Callable[[JournalOwnership], object]) -> None:
    together = threading.Barrier(3)
    bench.store.on_small = lambda *_: (together.wait(WAIT), None)[1]  # broken, unless all three come at once
    step(bench.ownership)


def test_done_is_written_side_by_side(bench: Bench) -> None:
    bench.intend(intents(*ALL))
    together = threading.Barrier(3)
    bench.store.on_small = lambda *_: (together.wait(WAIT), None)[1]
    bench.ownership.done()


# --- not ours any more ----------------------------------------------------------------------------------------------


def test_a_fenced_partition_takes_only_itself_out_of_a_batch(bench: Bench) -> None:
    bench.take_over(B)
    bench.intend(intents(*ALL))
    assert bench.states() == ["pending", "done", "pending"]
    assert [bench.ownership.is_owner(token) for token in ALL] == [True, False, True]
    assert bench.ownership.confirm(ALL) == {A, C}
    bench.ownership.done()
    assert bench.states() == ["done", "done", "done"]
    assert [bench.entry(token).end for token in ALL] == [9, -1, 9]


def test_a_partition_fenced_after_its_upload_is_not_confirmed(bench: Bench) -> None:
    bench.intend(intents(A, B))
    bench.take_over(A)
    assert bench.ownership.confirm([A, B]) == {B}
    bench.ownership.done()
    assert bench.states() == ["pending", "done", "done"], "its new owner decides on what is pending"


def test_being_fenced_is_reported_once_with_the_reason(bench: Bench) -> None:
    bench.intend(intents(A, B))
    bench.take_over(B)
    bench.ownership.confirm([A, B])
    bench.ownership.confirm([A, B])
    bench.intend(intents(B, number=1))
    bench.ownership.done()
    bench.ownership.advance({B: 99})
    assert bench.ownership.confirm([A, B]) == {A}
    assert bench.fenced == [B]
    assert "was taken over by another member of the consumer group" in bench.reports[0][1]


@pytest.mark.parametrize("step", ["done", "advance", "is_owner"])
def test_being_fenced_is_found_out_at_any_step(bench: Bench, step: str) -> None:
    if step == "done":
        bench.intend(intents(A, B))
    bench.take_over(B)
    if step == "done":
        bench.ownership.done()
    elif step == "advance":
        bench.ownership.advance({A: 5, B: 5})
    else:
        bench.clock.advance(31)
        assert not bench.ownership.is_owner(B)
    assert bench.fenced == [B]
    assert not bench.ownership.is_owner(B)


def test_assignments_that_ended_are_left_out_without_a_word(bench: Bench) -> None:
    bench.intend(intents(A, B))
    bench.ended.add(A)
    bench.asked.clear()
    assert not bench.ownership.is_owner(A)
    assert bench.ownership.confirm([A, B]) == {B}
    bench.intend(intents(A, C, number=1))
    bench.ownership.advance({A: 50})
    bench.ownership.delete_rolled_back()
    bench.ownership.done()
    assert key(A) not in [asked for _, asked in bench.asked]
    assert bench.states() == ["pending", "done", "done"]
    assert bench.reports == []


def test_assignments_that_are_not_claimed_hold_nothing(bench: Bench) -> None:
    bench.intend(intents("dddddddd"))
    assert bench.ownership.confirm(["dddddddd"]) == set()
    assert not bench.ownership.is_owner("dddddddd")


def test_journals_of_ended_assignments_are_forgotten_at_the_next_claim(bench: Bench) -> None:
    bench.ended.add(A)
    bench.take(B)
    bench.ended.clear()
    assert [bench.ownership.is_owner(token) for token in ALL] == [False, True, True]


def test_a_partition_fenced_while_others_are_asked_disturbs_them_not(bench: Bench) -> None:
    """Uploads, batches and the consumer ask on threads of their own."""
    asking = False

    def is_current(_: str) -> bool:
        nonlocal asking
        if asking:
            asking = False
            assert not ownership.is_owner(B), "found out in the midst of another question"
        return True

    ownership = JournalOwnership(
        is_current, lambda token, _: bench.reports.append((token, "")), workers=1, fresh_seconds=FRESH
    )
    for token in ALL:
        ownership.take(token, bench.journals[token])
    bench.take_over(B)
    bench.clock.advance(31)
    asking = True
    ownership.delete_rolled_back()
    assert bench.fenced == [B]
    assert ownership.confirm(ALL) == {A, C}
    ownership.stop()


def test_being_fenced_is_reported_once_when_several_uploads_find_out_at_once(bench: Bench) -> None:
    both_asked = threading.Barrier(2)
    ownership = JournalOwnership(
        lambda _: both_asked.wait(WAIT) >= 0,
        lambda token, _: bench.reports.append((token, "")),
        workers=1,
        fresh_seconds=FRESH,
    )
    ownership.take(A, bench.journals[A])
    bench.take_over(A)
    bench.clock.advance(31)
    answers: list[bool] = []
    uploads = [threading.Thread(target=lambda: answers.append(ownership.is_owner(A))) for _ in range(2)]
    for upload in uploads:
        upload.start()
    for upload in uploads:
        upload.join(WAIT)
    assert answers == [False, False]
    assert bench.fenced == [A]
    ownership.stop()


# --- a fresh look before an upload ----------------------------------------------------------------------------------


def test_uploads_soon_after_the_last_look_ask_nothing(bench: Bench) -> None:
    bench.intend(intents(A))
    bench.asked.clear()
    bench.clock.advance(FRESH)
    assert bench.ownership.is_owner(A)
    assert bench.asked == []


def test_an_upload_long_after_the_last_look_looks_again(bench: Bench) -> None:
    bench.intend(intents(A))
    bench.asked.clear()
    bench.clock.advance(FRESH + 0.1)
    assert bench.ownership.is_owner(A)
    assert bench.ownership.is_owner(A)
    assert bench.asked == [("read", key(A))]


def test_a_process_that_was_frozen_does_not_upload_what_is_not_its_own_any_more(bench: Bench) -> None:
    bench.intend(intents(A))
    bench.take_over(A)
    bench.clock.advance(600)
    assert not bench.ownership.is_owner(A)
    assert bench.fenced == [A]


def test_a_process_frozen_for_less_than_its_session_looks_too(bench: Bench) -> None:
    """Its last heartbeat may be older than its last look: others may have taken over already."""
    assignments: Any = SimpleNamespace(is_current=lambda _: True, fence=lambda *_: None)
    settings = load({"STORAGE_URL": "file:///x", "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1", "input": "sensors"})
    ownership = new_ownership(settings, assignments, Timings())
    assert isinstance(ownership, JournalOwnership)
    ownership.take(A, bench.journals[A])
    bench.take_over(A)
    bench.clock.advance(15)
    assert not ownership.is_owner(A)
    ownership.stop()


def test_a_look_that_does_not_work_is_no_answer(bench: Bench) -> None:
    bench.clock.advance(31)
    bench.store.refuse_small = lambda _: AWAY
    with pytest.raises(RetryableError):
        bench.ownership.is_owner(A)
    bench.store.refuse_small = lambda _: None
    assert bench.ownership.is_owner(A)
    assert bench.reports == []


# --- the store says no ----------------------------------------------------------------------------------------------


def refusing(bench: Bench, errors: dict[str, ConnectorError]) -> None:
    by_key = {key(token): error for token, error in errors.items()}
    bench.store.refuse_small = by_key.get


def test_the_others_are_through_before_an_error_is_raised_and_all_can_be_repeated(bench: Bench) -> None:
    refusing(bench, {A: AWAY})
    with pytest.raises(RetryableError):
        bench.intend(intents(*ALL))
    refusing(bench, {})
    assert bench.states() == ["done", "pending", "pending"]
    bench.intend(intents(*ALL))
    assert bench.states() == ["pending"] * 3
    assert [bench.entry(token).seq for token in ALL] == [2, 2, 2]


@pytest.mark.parametrize("errors", [{A: AWAY, B: DENIED}, {A: DENIED, C: AWAY}, {A: AWAY, B: AWAY, C: DENIED}])
def test_a_lasting_error_is_raised_before_a_passing_one(bench: Bench, errors: dict[str, ConnectorError]) -> None:
    refusing(bench, errors)
    with pytest.raises(FatalError, match="access denied"):
        bench.ownership.confirm(ALL)


def test_a_passing_error_keeps_what_is_not_said_to_be_done_yet(bench: Bench) -> None:
    bench.intend(intents(*ALL))
    refusing(bench, {B: AWAY})
    with pytest.raises(RetryableError):
        bench.ownership.done()
    refusing(bench, {})
    assert bench.states() == ["done", "pending", "done"]
    bench.ownership.done()
    assert bench.states() == ["done"] * 3
    assert [bench.entry(token).seq for token in ALL] == [3, 3, 3]


def test_a_partition_fenced_beside_an_error_is_reported_at_once(bench: Bench) -> None:
    bench.take_over(B)
    refusing(bench, {A: AWAY})
    with pytest.raises(RetryableError):
        bench.intend(intents(*ALL))
    assert bench.fenced == [B]


# --- revoked objects ------------------------------------------------------------------------------------------------


def test_rolled_back_objects_of_all_partitions_are_deleted_again(bench: Bench) -> None:
    revoked = []
    for token in (A, B):
        bench.journals[token].intend(intent(token))
        journal = bench.journal(token, token)
        journal.claim(lambda: True)
        journal.recover(lambda _: None, whole)
        bench.ownership.take(token, journal)
        revoked.append(intent(token).files[0].key)
    bench.store.deleted.clear()
    bench.ownership.delete_rolled_back()
    assert sorted(bench.store.deleted) == revoked


# --- at least once --------------------------------------------------------------------------------------------------


def test_at_least_once_whoever_has_the_partition_may_write(tmp_path: Path) -> None:
    ownership = AssignmentOwnership(lambda token: token == A)
    ownership.intend(intents(A, B))
    assert ownership.is_owner(A)
    assert not ownership.is_owner(B)
    assert ownership.confirm([A, B]) == {A}
    ownership.done()
