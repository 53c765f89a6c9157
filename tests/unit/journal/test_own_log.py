"""The log of an assignment in the hands of its owner: taken over, and written batch by batch."""

import contextlib
from collections.abc import Callable
from dataclasses import replace

import pytest

from app.errors import FatalError, RetryableError
from app.journal.entry import RolledBack
from app.journal.own_log import OwnLog
from tests.unit.journal.journal_bench import OURS, P0, P1, Bench, intent, key_of, progress_at


def test_a_batch_that_the_next_one_has_finished_is_not_written_as_done(bench: Bench) -> None:
    owner = bench.begun()
    owner.intend(intent("1"))
    owner.registered()
    owner.intend(intent("2", batch=2, end=19))
    owner.done()
    assert (bench.log().state, bench.log().batch) == ("pending", 2)


def test_offsets_without_rows_move_the_ends_and_never_back(bench: Bench) -> None:
    owner = bench.begun(tps=[P0, P1], end=9)
    owner.advance({P0: 20})
    assert (bench.end(), bench.end(tp=P1)) == (20, 9)
    for end in (20, 19):
        owner.advance({P0: end})
        assert (bench.end(), bench.log().seq) == (20, 2)


def test_offsets_of_a_partition_that_the_log_does_not_have_are_left_out(bench: Bench) -> None:
    bench.begun().advance({P1: 20})
    assert (bench.log().seq, bench.log().of(P1)) == (1, None)


def test_while_a_batch_is_under_way_no_end_moves(bench: Bench) -> None:
    owner = bench.begun(tps=[P0, P1])
    owner.intend(intent("1", end=9))
    with pytest.raises(FatalError, match="another batch is on its way"):
        owner.advance({P0: 20, P1: 20})
    log = bench.log()
    assert (log.state, [(each.end, each.to) for each in log.partitions]) == ("pending", [(-1, 9), (-1, None)])


@pytest.mark.parametrize("step", [OwnLog.verify, lambda owner: owner.advance({P0: 5})])
def test_a_verification_is_as_old_as_its_request(bench: Bench, step: Callable[[OwnLog], None]) -> None:
    """A process that is frozen while it waits for the answer knows what was true when the store gave it."""
    owner = bench.begun()
    bench.store.on_answer = lambda: bench.clock.advance(300)
    step(owner)
    bench.store.on_answer = lambda: None
    asked: list[str] = []
    bench.store.on_small = lambda what, _: asked.append(what)
    owner.verify(fresh_seconds=300)
    assert asked == ["read"]


def test_a_batch_carries_how_far_was_read_beyond_its_rows(bench: Bench) -> None:
    owner = bench.begun(tps=[P0, P1])
    owner.intend(replace(intent("1"), ends={P0: 20, P1: 30}))
    assert [bench.end(tp=tp) for tp in (P0, P1)] == [-1, -1], "it may be rolled back"
    owner.registered()
    owner.done()
    assert [bench.end(tp=tp) for tp in (P0, P1)] == [20, 30]


def test_offsets_without_rows_say_in_the_same_write_that_the_batch_before_is_done(bench: Bench) -> None:
    owner = bench.begun()
    owner.intend(intent("1"))
    owner.registered()
    before = bench.log()
    owner.advance({P0: 20})
    owner.done()
    assert (bench.log().seq, bench.log().state, bench.end()) == (before.seq + 1, "done", 20)


def test_only_a_look_long_after_the_last_one_asks_the_store(bench: Bench) -> None:
    owner = bench.begun()
    asked: list[str] = []
    bench.store.on_small = lambda what, _: asked.append(what)
    bench.clock.advance(9.9)
    owner.verify(fresh_seconds=10)
    assert asked == []
    bench.clock.advance(0.1)
    for _ in range(2):
        owner.verify(fresh_seconds=10)
    assert asked == ["read"]


def test_what_is_taken_over_twice_is_written_once_and_what_changed_replaces_it(bench: Bench) -> None:
    owner = bench.own_log()
    old = RolledBack(key=key_of("old"), since=5)
    for tp, end, seq in ((P0, 9, 1), (P0, 9, 1), (P1, 4, 2), (P0, 12, 3)):
        owner.take_over([progress_at(tp, end)], [old])
        assert bench.log().seq == seq
    assert (bench.end(), bench.end(tp=P1), bench.rolled_back(OURS)) == (12, 4, [key_of("old")])


# --- answers that get lost ------------------------------------------------------------------------------------------


def patiently(step: Callable[[], object]) -> None:
    for _ in range(3):
        with contextlib.suppress(RetryableError):
            step()
            return
    raise AssertionError("it does not come to an end")


def test_a_batch_is_not_confirmed_by_the_one_before_whose_place_it_takes(bench: Bench) -> None:
    """Its rows are not registered: where the process ends now, the next owner must look for its files."""
    owner = bench.begun()
    owner.intend(intent("1"))
    owner.registered()
    bench.store.lost_answers = 1
    with pytest.raises(RetryableError):
        owner.intend(intent("2", batch=2, end=19))
    patiently(owner.done)
    assert (bench.log().state, bench.log().batch, bench.end()) == ("pending", 2, 9)
    patiently(lambda: owner.intend(intent("2", batch=2, end=19)))
    owner.registered()
    owner.done()
    assert bench.end() == 19
