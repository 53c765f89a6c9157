"""Partitions that pass from one generation to another: what comes first, and what may be gone or damaged."""

import contextlib

import pytest

from app.errors import FatalError
from app.journal.journal import CLAIM, FencedError
from tests.support.world import P0, P1, THEIRS, THIRD, World, intent, key_of

# --- what a claim does, in its order --------------------------------------------------------------------------------


def test_files_are_looked_for_only_after_the_log_is_closed(world: World) -> None:
    """Whoever looks first may see files missing that their owner, not fenced yet, uploads and registers then."""
    former = world.begun()
    former.intend(intent("1"))

    def upload_late(what: str, key: str) -> None:
        if (what, key) == ("write", world.log_key()) and not world.log().closed:
            former.verify()  # it still may
            world.store_files("1")

    world.store.on_small = upload_late
    world.claimed()
    assert world.registered == [[key_of("1")]]
    with pytest.raises(FencedError):
        former.verify()


def test_a_claim_names_the_log_of_its_owner_only_once_that_has_the_partition(world: World) -> None:
    """Else nobody would know how far the partition is written, where the member dies in between."""
    world.begun(end=9)
    found: list[int] = []

    def look(what: str, key: str) -> None:
        if (what, key) == ("write", world.claim_key()):
            found.append(world.end(THEIRS))

    world.store.on_small = look
    world.claimed()
    assert found == [9]


# --- two at once ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("times", [2, 100])
def test_a_claim_whose_former_owner_still_writes_is_tried_again_some_times(world: World, times: int) -> None:
    owner = world.begun()
    ends = iter(range(10, 10 + times))

    def disturb(what: str, key: str) -> None:
        world.store.on_small = lambda *_: None
        if what == "write" and key == world.log_key() and (end := next(ends, None)) is not None:
            owner.advance({P0: end})
        world.store.on_small = disturb

    world.store.on_small = disturb
    with pytest.raises(FencedError) if times > 2 else contextlib.nullcontext():
        world.claimed()
    assert (world.owner() == THEIRS) == (times == 2)
    assert world.end() >= 11


# --- what is gone or damaged ----------------------------------------------------------------------------------------


def test_a_log_that_is_gone_while_the_claim_still_names_it_is_fatal_with_a_hint(world: World) -> None:
    world.begun(tps=[P0, P1])
    world.delete(world.log_key())
    before = world.documents()
    with pytest.raises(FatalError, match=world.log_key()) as raised:
        world.claimed(tps=[P0, P1])
    assert "Restore the object" in raised.value.hint
    assert world.documents() == before


def test_a_log_that_is_gone_because_the_claim_has_changed_is_no_longer_needed(world: World) -> None:
    world.begun()

    def heir(what: str, key: str) -> None:
        if (what, key) == ("read", world.log_key()):
            world.store.on_small = lambda *_: None
            world.claimed(THIRD).advance({P0: 30})
            world.delete(world.log_key())

    world.store.on_small = heir
    world.claimed()
    assert (world.end(THEIRS), world.owner()) == (30, THEIRS)


def test_a_log_without_the_partition_of_its_claim_is_fatal_and_fences_nobody(world: World) -> None:
    world.begun(tps=[P0])
    world.overwrite(world.claim_key(P1), CLAIM.body(world.stored_claim(P0)))
    with pytest.raises(FatalError, match=r"sensors\[1\]"):
        world.claimed(tps=[P1])
    assert not world.log().closed


@pytest.mark.parametrize("what", ["claim", "log"])
def test_a_document_that_cannot_be_understood_ends_the_claim_for_good_and_is_left_as_it_is(
    world: World, what: str
) -> None:
    body = b"{"
    world.begun()
    key = world.claim_key() if what == "claim" else world.log_key()
    world.overwrite(key, body)
    with pytest.raises(FatalError) as raised:
        world.claimed()
    assert f"{world.store.uri}/{key}" in str(raised.value)
    assert "update this one" in raised.value.hint
    assert (world.lake / key).read_bytes() == body


@pytest.mark.parametrize("keys", [["claim"], ["claim", "log"]])
def test_a_table_deleted_during_a_claim_begins_anew(world: World, keys: list[str]) -> None:
    world.begun(end=4)

    def delete(what: str, key: str) -> None:
        if (what, key) == ("write", world.claim_key()):
            world.store.on_small = lambda *_: None
            world.store.bodies.clear()
            for each in keys:
                world.delete(world.claim_key() if each == "claim" else world.log_key())

    world.store.on_small = delete
    world.claimed()
    assert (world.owner(), world.end(THEIRS)) == (THEIRS, -1)
