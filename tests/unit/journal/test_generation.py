"""The log of a generation in the hands of its owner: taken over, and written batch by batch."""

import pytest

from app.errors import FatalError
from app.journal.entry import RolledBack
from tests.unit.journal.journal_bench import OURS, P0, P1, THEIRS, Bench, intent, key_of, progress_at


def test_an_intent_says_what_is_about_to_be_stored(bench: Bench) -> None:
    bench.begun(tps=[P0, P1], end=4).intend(intent("1", "2", batch=7, ends={P0: 9}, also=["letter"]))
    log = bench.log()
    assert (log.state, log.batch) == ("pending", 7)
    assert [(each.end, each.to) for each in log.partitions] == [(4, 9), (4, None)]
    assert log.objects == (key_of("1"), key_of("2"), key_of("letter"))


def test_a_batch_done_moves_the_ends_of_its_partitions_and_forgets_its_files(bench: Bench) -> None:
    owner = bench.begun(tps=[P0, P1])
    owner.intend(intent("1", also=["letter"]))
    owner.done(0)
    assert (bench.log().state, bench.end(), bench.end(tp=P1), bench.log().objects) == ("done", 9, -1, ())


def test_the_next_intent_says_that_the_one_before_is_done(bench: Bench) -> None:
    owner = bench.begun(tps=[P0, P1])
    owner.intend(intent("1", batch=0, ends={P0: 9, P1: 5}))
    owner.intend(intent("2", batch=1, ends={P1: 15}))
    log = bench.log()
    assert [(each.end, each.to) for each in log.partitions] == [(9, None), (5, 15)]
    assert log.objects == (key_of("2"),)
    bench.claimed(tps=[P0, P1])
    assert [each.end for each in bench.log(THEIRS).partitions] == [9, 5], "only the last batch is undone"


def test_announcing_a_batch_again_and_finishing_it_again_writes_nothing(bench: Bench) -> None:
    owner = bench.begun()
    for _ in range(2):
        owner.intend(intent("1"))
        assert bench.log().seq == 2
    for _ in range(2):
        owner.done(0)
        assert bench.log().seq == 3


def test_a_batch_that_the_next_one_has_finished_is_not_written_as_done(bench: Bench) -> None:
    owner = bench.begun()
    owner.intend(intent("1", batch=0))
    owner.intend(intent("2", batch=1, end=19))
    owner.done(0)
    assert (bench.log().state, bench.log().batch) == ("pending", 1)


def test_records_that_come_late_do_not_take_the_end_back(bench: Bench) -> None:
    """A buffered join gives out records with the offsets they once had."""
    owner = bench.begun(end=99)
    owner.intend(intent("1", end=50))
    owner.done(0)
    assert bench.end() == 99


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


def test_the_seconds_since_the_last_verification_are_known(bench: Bench) -> None:
    owner = bench.generation()
    assert owner.seconds_since_verified == float("inf")
    bench.claim(owner)
    assert owner.seconds_since_verified == 0
    bench.clock.advance(40)
    assert owner.seconds_since_verified == 40
    owner.verify_ownership()
    assert owner.seconds_since_verified == 0


@pytest.mark.parametrize("step", ["verify_ownership", "advance"])
def test_a_verification_is_as_old_as_its_request(bench: Bench, step: str) -> None:
    """A process that is frozen while it waits for the answer knows what was true when the store gave it."""
    owner = bench.begun()
    bench.store.on_answer = lambda: bench.clock.advance(300)
    if step == "verify_ownership":
        owner.verify_ownership()
    else:
        owner.advance({P0: 5})
    assert owner.seconds_since_verified >= 300


def test_what_is_taken_over_twice_is_written_once_and_what_changed_replaces_it(bench: Bench) -> None:
    owner = bench.generation()
    old = RolledBack(key=key_of("old"), since=5)
    for tp, end, seq in ((P0, 9, 1), (P0, 9, 1), (P1, 4, 2), (P0, 12, 3)):
        owner.take_over([progress_at(tp, end)], [old])
        assert bench.log().seq == seq
    assert (bench.end(), bench.end(tp=P1), bench.rolled_back(OURS)) == (12, 4, [key_of("old")])


# --- how many requests ----------------------------------------------------------------------------------------------


def test_a_batch_takes_one_write_and_one_read_whatever_the_number_of_partitions(bench: Bench) -> None:
    tps = [P0._replace(partition=number) for number in range(50)]
    owner = bench.begun(tps=tps)
    asked: list[tuple[str, str]] = []
    bench.store.on_small = lambda what, key: asked.append((what, key))
    for batch in range(3):
        owner.intend(intent(str(batch), batch=batch, ends=dict.fromkeys(tps, batch * 10 + 9)))
        owner.verify_ownership()
    assert asked == [("write", bench.log_key()), ("read", bench.log_key())] * 3
