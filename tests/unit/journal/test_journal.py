"""The journal of a topic-partition in the hands of its owner: claimed, begun, and written batch by batch."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.errors import FatalError
from app.journal.entry_store import FencedError
from tests.unit.journal.journal_bench import KEY, OURS, THEIRS, Bench, intent, key_of


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.check_versions()


# --- at assignment --------------------------------------------------------------------------------------------------


def test_a_claim_of_a_journal_that_is_not_there_writes_nothing(bench: Bench) -> None:
    journal = bench.journal()
    assert journal.claim(lambda: True) is None
    assert journal.entry is None
    assert bench.store.bodies == {}


def test_a_journal_begins_with_all_before_its_start_in_the_lake(bench: Bench) -> None:
    bench.begun(end=99)
    entry = bench.entry
    assert (entry.seq, entry.owner, entry.state, entry.start, entry.end, entry.topic_id) == (
        1,
        OURS,
        "done",
        100,
        99,
        "id",
    )


def test_a_claim_changes_nothing_but_the_owner(bench: Bench) -> None:
    bench.begun().intend(intent("1", "2", also=["letter"]))
    before = bench.entry
    journal = bench.journal(THEIRS)
    assert journal.claim(lambda: True) == before
    assert bench.entry == before.changed(owner=THEIRS)
    assert journal.entry == bench.entry


def test_the_files_of_a_pending_batch_are_looked_for_only_after_the_claim_is_written(bench: Bench) -> None:
    """Whoever looks first may see files missing that their owner, not fenced yet, uploads and registers then."""
    former = bench.begun()
    former.intend(intent("1"))
    journal = bench.claimed()
    bench.store_files("1")
    with pytest.raises(FencedError):
        former.verify_ownership()
    journal.recover(bench.register, bench.left_in_kafka)
    assert bench.registered == [[key_of("1")]]
    assert bench.has("1")


def test_a_claim_ends_when_the_assignment_does(bench: Bench) -> None:
    bench.begun()
    before = bench.entry
    with pytest.raises(FencedError, match="the assignment ended before its journal was claimed"):
        bench.journal(THEIRS).claim(lambda: False)
    assert bench.entry == before


def test_a_claim_whose_assignment_ends_while_it_reads_writes_nothing(bench: Bench) -> None:
    bench.begun()
    before = bench.entry
    current = [True]
    bench.store.on_answer = current.clear
    with pytest.raises(FencedError):
        bench.journal(THEIRS).claim(lambda: bool(current))
    assert bench.entry == before


def test_a_claim_that_others_disturb_is_tried_again(bench: Bench) -> None:
    owner = bench.begun()
    ends = iter(range(10, 12))

    def disturb(what: str, _: str) -> None:
        bench.store.on_small = lambda *_: None
        if what == "write" and (end := next(ends, None)) is not None:
            owner.advance(end)
        bench.store.on_small = disturb

    bench.store.on_small = disturb
    journal = bench.claimed()
    assert journal.entry is not None
    assert (journal.entry.owner, journal.entry.end) == (THEIRS, 11)


def test_a_claim_that_others_disturb_again_and_again_is_given_up(bench: Bench) -> None:
    owner = bench.begun()
    end = 0

    def disturb(what: str, _: str) -> None:
        nonlocal end
        bench.store.on_small = lambda *_: None
        if what == "write":
            end += 1
            owner.advance(end)
        bench.store.on_small = disturb

    bench.store.on_small = disturb
    with pytest.raises(FencedError, match=f"others write .*{KEY} at the same time"):
        bench.journal(THEIRS).claim(lambda: True)


def test_a_table_deleted_during_a_claim_leaves_no_journal(bench: Bench) -> None:
    bench.begun()

    def delete(what: str, _: str) -> None:
        if what == "write":
            bench.store.on_small = lambda *_: None
            bench.delete_entry()

    bench.store.on_small = delete
    assert bench.journal(THEIRS).claim(lambda: True) is None
    assert not (bench.lake / KEY).exists()


@pytest.mark.parametrize("body", [b"", b"{", b"{}", b'{"version": 2}', b"[]"])
def test_an_entry_that_cannot_be_understood_ends_the_claim_for_good_and_is_left_as_it_is(
    bench: Bench, body: bytes
) -> None:
    bench.begun()
    bench.overwrite(body)
    with pytest.raises(FatalError) as raised:
        bench.journal(THEIRS).claim(lambda: True)
    assert str(raised.value).startswith(f"reading the journal {bench.store.uri}/{KEY}: ")
    assert "update this one" in raised.value.hint
    assert (bench.lake / KEY).read_bytes() == body


# --- where to go on -------------------------------------------------------------------------------------------------


def test_going_on_from_where_the_journal_is_writes_nothing(bench: Bench) -> None:
    bench.begun(end=9)
    journal = bench.claimed()
    before = bench.entry
    journal.begin(9, "id")
    assert bench.entry == before


@pytest.mark.parametrize(("end", "topic_id"), [(4, "id"), (20, "id"), (9, "other"), (-1, "other")])
def test_going_on_from_elsewhere_is_written(bench: Bench, end: int, topic_id: str) -> None:
    bench.begun(end=9)
    bench.claimed().begin(end, topic_id)
    assert (bench.entry.state, bench.entry.start, bench.entry.end, bench.entry.topic_id) == (
        "done",
        end + 1,
        end,
        topic_id,
    )


def test_a_topic_whose_id_is_unknown_this_time_keeps_the_known_one(bench: Bench) -> None:
    """Else a topic made anew before the next start would not be noticed."""
    bench.begun(end=9)
    bench.claimed().begin(9, "")
    assert bench.entry.topic_id == "id"


def test_a_topic_found_recreated_by_its_offsets_does_not_keep_the_id_of_the_old_one(bench: Bench) -> None:
    bench.begun(end=9)
    bench.claimed().begin(-1, "")
    assert bench.entry.topic_id == ""


def test_switched_off_once_and_on_again_by_a_new_beginning(bench: Bench) -> None:
    bench.begun(end=9)
    journal = bench.recovered()
    journal.switch_off()
    versions = bench.entry.seq
    journal.switch_off()
    assert (bench.entry.state, bench.entry.end, bench.entry.seq) == ("off", 9, versions)
    bench.recovered(OURS).begin(9, "id")
    assert (bench.entry.state, bench.entry.end) == ("done", 9)


# --- batch by batch -------------------------------------------------------------------------------------------------


def test_an_intent_says_what_is_about_to_be_stored(bench: Bench) -> None:
    bench.begun(end=4).intend(intent("1", "2", batch=7, end=9, also=["letter"]))
    entry = bench.entry
    assert (entry.state, entry.batch, entry.start, entry.end) == ("pending", 7, 5, 9)
    assert entry.objects == (key_of("1"), key_of("2"), key_of("letter"))


def test_a_batch_done_moves_the_end_and_forgets_its_files(bench: Bench) -> None:
    journal = bench.begun()
    journal.intend(intent("1", also=["letter"]))
    journal.done(0)
    assert (bench.entry.state, bench.entry.end, bench.entry.objects) == ("done", 9, ())


def test_the_next_intent_says_that_the_one_before_is_done(bench: Bench) -> None:
    journal = bench.begun()
    journal.intend(intent("1", batch=0, end=9))
    journal.intend(intent("2", batch=1, end=19))
    assert (bench.entry.start, bench.entry.end, bench.entry.objects) == (10, 19, (key_of("2"),))
    bench.recovered()
    assert bench.entry.end == 9, "only the last batch is undone"


def test_announcing_a_batch_again_and_finishing_it_again_writes_nothing(bench: Bench) -> None:
    journal = bench.begun()
    for _ in range(2):
        journal.intend(intent("1"))
        assert bench.entry.seq == 2
    for _ in range(2):
        journal.done(0)
        assert bench.entry.seq == 3


def test_records_that_come_late_do_not_take_the_end_back(bench: Bench) -> None:
    """A buffered join gives out records with the offsets they once had."""
    journal = bench.begun(end=99)
    journal.intend(intent("1", end=50))
    assert bench.entry.end == 99
    journal.done(0)
    assert bench.entry.end == 99


def test_offsets_without_rows_move_the_end_and_never_back(bench: Bench) -> None:
    journal = bench.begun(end=9)
    journal.advance(20)
    assert (bench.entry.start, bench.entry.end) == (21, 20)
    for end in (20, 19):
        journal.advance(end)
        assert (bench.entry.end, bench.entry.seq) == (20, 2)


def test_while_a_batch_is_under_way_the_end_is_its_own(bench: Bench) -> None:
    journal = bench.begun()
    journal.intend(intent("1", end=9))
    journal.advance(20)
    assert (bench.entry.state, bench.entry.end) == ("pending", 9)


def test_the_seconds_since_the_last_verification_are_known(bench: Bench) -> None:
    journal = bench.journal()
    assert journal.seconds_since_verified == float("inf")
    journal.claim(lambda: True)
    journal.begin(0, "")
    assert journal.seconds_since_verified == 0
    bench.clock.advance(40)
    assert journal.seconds_since_verified == 40
    journal.verify_ownership()
    assert journal.seconds_since_verified == 0


@pytest.mark.parametrize("step", ["verify_ownership", "advance"])
def test_a_verification_is_as_old_as_its_request(bench: Bench, step: str) -> None:
    """A process that is frozen while it waits for the answer knows what was true when the store gave it."""
    journal = bench.begun()
    bench.store.on_answer = lambda: bench.clock.advance(300)
    if step == "verify_ownership":
        journal.verify_ownership()
    else:
        journal.advance(5)
    assert journal.seconds_since_verified >= 300
