"""Partitions that pass from one generation to another: what comes first, and what may be gone or damaged."""

import contextlib

import pytest

from app.errors import FatalError
from app.journal.journal import CLAIM, FencedError
from tests.unit.journal.journal_bench import P0, P1, THEIRS, THIRD, Bench, intent, key_of

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


def test_a_claim_names_the_log_of_its_owner_only_once_that_has_the_partition(bench: Bench) -> None:
    """Else nobody would know how far the partition is written, where the member dies in between."""
    bench.begun(end=9)
    found: list[int] = []

    def look(what: str, key: str) -> None:
        if (what, key) == ("write", bench.claim_key()):
            found.append(bench.end(THEIRS))

    bench.store.on_small = look
    bench.claimed()
    assert found == [9]


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
