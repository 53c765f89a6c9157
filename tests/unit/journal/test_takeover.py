"""Partitions that pass from one generation to another: at once, in part, interrupted anywhere."""

import contextlib
from collections.abc import Callable

import pytest

from app.errors import FatalError
from app.journal.entry import is_log
from app.journal.journal import CLAIM, FencedError
from tests.unit.journal.journal_bench import (
    P0,
    P1,
    P2,
    THEIRS,
    THIRD,
    Bench,
    intent,
    key_of,
)

Left = Callable[[Bench], object]


class CrashedError(Exception):
    """A process that ends."""


def crash_at(bench: Bench, number: int) -> None:
    """Let the next write but ``number - 1`` be the last thing that a process is about to do."""
    left = [number]

    def count(what: str, _: str) -> None:
        if what == "write":
            left[0] -= 1
            if left[0] == 0:
                raise CrashedError

    bench.store.on_small = count


# --- what a claim does, in its order --------------------------------------------------------------------------------


def test_files_are_looked_for_only_after_the_log_is_closed(bench: Bench) -> None:
    """Whoever looks first may see files missing that their owner, not fenced yet, uploads and registers then."""
    former = bench.begun()
    former.intend(intent("1"))

    def upload_late(what: str, key: str) -> None:
        if (what, key) == ("write", bench.log_key()) and not bench.log().closed:
            former.verify()  # it still may
            bench.store_files("1")

    bench.store.on_small = upload_late
    bench.claimed()
    assert bench.registered == [[key_of("1")]]
    with pytest.raises(FencedError):
        former.verify()


# --- one of two partitions ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_complete", [True, False])
def test_of_two_partitions_with_shared_files_each_goes_on_from_the_same_decision(
    bench: Bench, *, is_complete: bool
) -> None:
    left_complete(bench, "1", *(["2"] if is_complete else []))
    bench.claimed(THEIRS, [P0])
    bench.store_files("2")  # an upload of the former owner, that lands late
    bench.claimed(THIRD, [P1])
    assert (bench.end(THEIRS, P0), bench.end(THIRD, P1)) == ((9, 7) if is_complete else (4, 4))
    assert bench.log(THEIRS).of(P1) is None
    assert bench.registered == ([[key_of("1"), key_of("2")]] if is_complete else [])
    assert bench.has("1") == bench.has("2") == is_complete
    for owner in (THEIRS, THIRD):
        assert bench.rolled_back(owner) == ([] if is_complete else [key_of("1"), key_of("2")])


def test_partitions_of_several_generations_are_claimed_together_with_what_each_has_rolled_back_once(
    bench: Bench,
) -> None:
    bench.begun("f1", [P0, P1], end=4).intend(intent("1", "2", ends={P0: 9, P1: 9}))
    bench.begun("f2", [P2], end=50).intend(intent("3", ends={P2: 59}))
    bench.claimed("f3", [P0])  # it inherits "1" and "2"
    bench.store_files("3")
    bench.claimed(THEIRS, [P0, P1, P2])
    assert [bench.end(THEIRS, tp) for tp in (P0, P1, P2)] == [4, 4, 59]
    assert sorted(bench.rolled_back(THEIRS)) == [key_of("1"), key_of("2")]
    assert all(bench.log(owner).closed for owner in ("f1", "f2", "f3"))


# --- interrupted ----------------------------------------------------------------------------------------------------


def left_nothing(_: Bench) -> None:
    pass


def left_done(bench: Bench) -> None:
    bench.begun(tps=[P0, P1], end=4)


def left_complete(bench: Bench, *stored: str) -> None:
    bench.begun(tps=[P0, P1], end=4).intend(intent("1", "2", ends={P0: 9, P1: 7}))
    bench.store_files(*stored or ("1", "2"))


def left_incomplete(bench: Bench) -> None:
    left_complete(bench, "1")


LEFT = [left_nothing, left_done, left_complete, left_incomplete]


def outcome(bench: Bench, owner: str) -> tuple[object, ...]:
    """What the claim of both partitions has led to, but for the number of versions."""
    return (
        [(bench.owner(tp), bench.end(owner, tp)) for tp in (P0, P1)],
        bench.rolled_back(owner),
        {name for name in "123" if bench.has(name)},
        {key for keys in bench.registered for key in keys},
        bench.log(owner).closed,
    )


def undisturbed(bench: Bench, left: Left) -> tuple[object, ...]:
    folder = bench.lake.parent / "undisturbed"
    folder.mkdir()
    other = Bench(folder)
    left(other)
    other.claimed(THEIRS, [P0, P1])
    return outcome(other, THEIRS)


@pytest.mark.parametrize("left", LEFT)
@pytest.mark.parametrize("number", range(1, 9))
def test_after_a_crash_at_any_write_the_next_claimer_goes_on_rightly(bench: Bench, left: Left, number: int) -> None:
    left(bench)
    crash_at(bench, number)
    with contextlib.suppress(CrashedError):
        bench.claimed(THIRD, [P0, P1])
    bench.store.on_small = lambda *_: None
    bench.claimed(THEIRS, [P0, P1])
    assert outcome(bench, THEIRS) == undisturbed(bench, left)


@pytest.mark.parametrize("left", LEFT)
@pytest.mark.parametrize("number", range(14))
def test_a_claimer_whose_assignment_ends_fences_nobody_any_more(bench: Bench, left: Left, number: int) -> None:
    """The next owner may be claiming already: no write begins any more, except for a batch whose owner is fenced."""
    left(bench)
    requests = [0]
    late: list[str] = []

    def count(what: str, key: str) -> None:
        is_settled = is_log(key) and key == bench.log_key() and bench.log().closed
        if requests[0] > number and what == "write" and not is_settled:
            late.append(key)
        requests[0] += 1
        if requests[0] > number:
            own.end()

    bench.store.on_small = count
    own = bench.own_log(THEIRS)
    with contextlib.suppress(FencedError):
        bench.takeover().claim([P0, P1], own)
    assert late == []


# --- two at once ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("times", [2, 100])
def test_a_claim_whose_former_owner_still_writes_is_tried_again_some_times(bench: Bench, times: int) -> None:
    owner = bench.begun()
    ends = iter(range(10, 10 + times))

    def disturb(what: str, key: str) -> None:
        bench.store.on_small = lambda *_: None
        if what == "write" and key == bench.log_key() and (end := next(ends, None)) is not None:
            owner.advance({P0: end})
        bench.store.on_small = disturb

    bench.store.on_small = disturb
    with pytest.raises(FencedError) if times > 2 else contextlib.nullcontext():
        bench.claimed()
    assert (bench.owner() == THEIRS) == (times == 2)
    assert bench.end() >= 11


# --- what is gone or damaged ----------------------------------------------------------------------------------------


def test_a_log_that_is_gone_while_the_claim_still_names_it_is_fatal_with_a_hint(bench: Bench) -> None:
    bench.begun(tps=[P0, P1])
    bench.delete(bench.log_key())
    before = bench.documents()
    with pytest.raises(FatalError, match=bench.log_key()) as raised:
        bench.claimed(tps=[P0, P1])
    assert "Restore the object" in raised.value.hint
    assert bench.documents() == before


def test_a_log_that_is_gone_because_the_claim_has_changed_is_no_longer_needed(bench: Bench) -> None:
    bench.begun()

    def heir(what: str, key: str) -> None:
        if (what, key) == ("read", bench.log_key()):
            bench.store.on_small = lambda *_: None
            bench.claimed(THIRD).advance({P0: 30})
            bench.delete(bench.log_key())

    bench.store.on_small = heir
    bench.claimed()
    assert (bench.end(THEIRS), bench.owner()) == (30, THEIRS)


def test_a_log_without_the_partition_of_its_claim_is_fatal_and_fences_nobody(bench: Bench) -> None:
    bench.begun(tps=[P0])
    bench.overwrite(bench.claim_key(P1), CLAIM.body(bench.stored_claim(P0)))
    with pytest.raises(FatalError, match=r"sensors\[1\]"):
        bench.claimed(tps=[P1])
    assert not bench.log().closed


@pytest.mark.parametrize("what", ["claim", "log"])
@pytest.mark.parametrize("body", [b"{", b'{"version": 2}'])
def test_a_document_that_cannot_be_understood_ends_the_claim_for_good_and_is_left_as_it_is(
    bench: Bench, what: str, body: bytes
) -> None:
    bench.begun()
    key = bench.claim_key() if what == "claim" else bench.log_key()
    bench.overwrite(key, body)
    with pytest.raises(FatalError) as raised:
        bench.claimed()
    assert f"{bench.store.uri}/{key}" in str(raised.value)
    assert "update this one" in raised.value.hint
    assert (bench.lake / key).read_bytes() == body


@pytest.mark.parametrize("keys", [["claim"], ["claim", "log"]])
def test_a_table_deleted_during_a_claim_begins_anew(bench: Bench, keys: list[str]) -> None:
    bench.begun(end=4)

    def delete(what: str, key: str) -> None:
        if (what, key) == ("write", bench.claim_key()):
            bench.store.on_small = lambda *_: None
            bench.store.bodies.clear()
            for each in keys:
                bench.delete(bench.claim_key() if each == "claim" else bench.log_key())

    bench.store.on_small = delete
    bench.claimed()
    assert (bench.owner(), bench.end(THEIRS)) == (THEIRS, -1)
