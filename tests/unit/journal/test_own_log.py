"""The log of an assignment in the hands of its owner: taken over, and written batch by batch."""

import contextlib
from collections.abc import Callable
from dataclasses import replace

import pytest

from app.errors import FatalError, RetryableError
from app.journal.entry import RolledBack
from app.journal.own_log import OwnLog
from tests.support.world import OURS, P0, P1, World, intent, key_of, progress_at


def test_a_batch_that_the_next_one_has_finished_is_not_written_as_done(world: World) -> None:
    owner = world.begun()
    owner.intend(intent("1"))
    owner.registered()
    owner.intend(intent("2", batch=2, end=19))
    owner.done()
    assert (world.log().state, world.log().batch) == ("pending", 2)


def test_offsets_without_rows_move_the_ends_and_never_back(world: World) -> None:
    owner = world.begun(tps=[P0, P1], end=9)
    owner.advance({P0: 20})
    assert (world.end(), world.end(tp=P1)) == (20, 9)
    for end in (20, 19):
        owner.advance({P0: end})
        assert (world.end(), world.log().seq) == (20, 2)


def test_offsets_of_a_partition_that_the_log_does_not_have_are_left_out(world: World) -> None:
    world.begun().advance({P1: 20})
    assert (world.log().seq, world.log().of(P1)) == (1, None)


def test_while_a_batch_is_under_way_no_end_moves(world: World) -> None:
    owner = world.begun(tps=[P0, P1])
    owner.intend(intent("1", end=9))
    with pytest.raises(FatalError, match="another batch is in progress"):
        owner.advance({P0: 20, P1: 20})
    log = world.log()
    assert (log.state, [(each.end, each.to) for each in log.partitions]) == ("pending", [(-1, 9), (-1, None)])


@pytest.mark.parametrize("step", [OwnLog.verify, lambda owner: owner.advance({P0: 5})])
def test_a_verification_is_as_old_as_its_request(world: World, step: Callable[[OwnLog], None]) -> None:
    """A process that is frozen while it waits for the answer knows what was true when the store gave it."""
    owner = world.begun()
    world.store.on_answer = lambda: world.clock.advance(300)
    step(owner)
    world.store.on_answer = lambda: None
    asked: list[str] = []
    world.store.on_small = lambda what, _: asked.append(what)
    owner.verify(fresh_seconds=300)
    assert asked == ["read"]


def test_a_batch_carries_how_far_was_read_beyond_its_rows(world: World) -> None:
    owner = world.begun(tps=[P0, P1])
    owner.intend(replace(intent("1"), ends={P0: 20, P1: 30}))
    assert [world.end(tp=tp) for tp in (P0, P1)] == [-1, -1], "it may be rolled back"
    owner.registered()
    owner.done()
    assert [world.end(tp=tp) for tp in (P0, P1)] == [20, 30]


def test_offsets_without_rows_say_in_the_same_write_that_the_batch_before_is_done(world: World) -> None:
    owner = world.begun()
    owner.intend(intent("1"))
    owner.registered()
    before = world.log()
    owner.advance({P0: 20})
    owner.done()
    assert (world.log().seq, world.log().state, world.end()) == (before.seq + 1, "done", 20)


def test_only_a_look_long_after_the_last_one_asks_the_store(world: World) -> None:
    owner = world.begun()
    asked: list[str] = []
    world.store.on_small = lambda what, _: asked.append(what)
    world.clock.advance(9.9)
    owner.verify(fresh_seconds=10)
    assert asked == []
    world.clock.advance(0.1)
    for _ in range(2):
        owner.verify(fresh_seconds=10)
    assert asked == ["read"]


def test_what_is_taken_over_twice_is_written_once_and_what_changed_replaces_it(world: World) -> None:
    owner = world.own_log()
    old = RolledBack(key=key_of("old"), since=5)
    for tp, end, seq in ((P0, 9, 1), (P0, 9, 1), (P1, 4, 2), (P0, 12, 3)):
        owner.take_over([progress_at(tp, end)], [old])
        assert world.log().seq == seq
    assert (world.end(), world.end(tp=P1), world.rolled_back(OURS)) == (12, 4, [key_of("old")])


# --- answers that get lost ------------------------------------------------------------------------------------------


def patiently(step: Callable[[], object]) -> None:
    for _ in range(3):
        with contextlib.suppress(RetryableError):
            step()
            return
    raise AssertionError("it does not come to an end")


def test_a_batch_is_not_confirmed_by_the_one_before_whose_place_it_takes(world: World) -> None:
    """Its rows are not registered: where the process ends now, the next owner must look for its files."""
    owner = world.begun()
    owner.intend(intent("1"))
    owner.registered()
    world.store.lost_answers = 1
    with pytest.raises(RetryableError):
        owner.intend(intent("2", batch=2, end=19))
    patiently(owner.done)
    assert (world.log().state, world.log().batch, world.end()) == ("pending", 2, 9)
    patiently(lambda: owner.intend(intent("2", batch=2, end=19)))
    owner.registered()
    owner.done()
    assert world.end() == 19
