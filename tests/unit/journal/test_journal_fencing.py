"""A journal that somebody else has taken over, deleted or overwritten: its former owner stops, and harms nothing."""

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from app.errors import RetryableError
from app.journal.entry_store import FencedError
from app.journal.journal import Journal
from tests.unit.journal.journal_bench import KEY, OURS, THEIRS, Bench, intent, key_of

Step = Callable[[Journal], None]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.check_versions()


def intend(journal: Journal) -> None:
    journal.intend(intent("2", batch=1, end=19))


def advance(journal: Journal) -> None:
    journal.advance(99)


def switch_off(journal: Journal) -> None:
    journal.switch_off()


def begin(journal: Journal) -> None:
    journal.begin(50, "id")


def done(journal: Journal) -> None:
    journal.done(0)


STEPS_BETWEEN_BATCHES = [intend, advance, switch_off, begin, Journal.verify_ownership]
STEPS_OF_A_BATCH = [intend, Journal.verify_ownership, done]


@pytest.mark.parametrize("step", STEPS_BETWEEN_BATCHES)
def test_between_batches_the_former_owner_is_fenced(bench: Bench, step: Step) -> None:
    former = bench.begun()
    bench.recovered()
    before = bench.entry
    for _ in range(2):
        with pytest.raises(FencedError, match="was taken over by another member of the consumer group"):
            step(former)
    assert bench.entry == before


@pytest.mark.parametrize("recovers", [True, False])
@pytest.mark.parametrize("step", STEPS_OF_A_BATCH)
def test_in_a_batch_the_former_owner_is_fenced(bench: Bench, step: Step, *, recovers: bool) -> None:
    former = bench.begun()
    former.intend(intent("1"))
    bench.store_files("1")
    if recovers:
        bench.recovered()
    else:
        bench.claimed()
    before = bench.entry
    for _ in range(2):
        with pytest.raises(FencedError, match="was taken over by another member"):
            step(former)
    assert bench.entry == before
    assert bench.has("1"), "it is kept by its new owner, or not decided on yet"


def test_a_claim_that_comes_late_fences_the_one_before_and_not_itself(bench: Bench) -> None:
    bench.begun()
    first, second = bench.claimed("cccccccc"), bench.claimed("dddddddd")
    second.verify_ownership()
    with pytest.raises(FencedError):
        first.verify_ownership()


def test_of_many_that_claim_at_once_one_has_it_in_the_end(bench: Bench) -> None:
    bench.begun(end=9)
    journals = [bench.journal(f"{number:08x}") for number in range(8)]

    def claim(journal: Journal) -> None:
        with contextlib.suppress(FencedError):
            journal.claim(lambda: True)

    with ThreadPoolExecutor(len(journals)) as pool:
        list(pool.map(claim, journals))
    owners = [journal for journal in journals if is_ours(journal)]
    assert [owner.entry for owner in owners] == [bench.entry]
    assert bench.entry.end == 9


def is_ours(journal: Journal) -> bool:
    try:
        journal.verify_ownership()
    except FencedError:
        return False
    return True


def test_of_two_that_begin_the_same_journal_one_is_fenced(bench: Bench) -> None:
    first, second = bench.journal(OURS), bench.journal(THEIRS)
    assert first.claim(lambda: True) is None
    assert second.claim(lambda: True) is None
    first.begin(9, "id")
    with pytest.raises(FencedError):
        second.begin(9, "id")
    assert (bench.entry.owner, bench.entry.end) == (OURS, 9)


def test_a_claim_taken_over_before_it_is_recovered_neither_keeps_nor_undoes(bench: Bench) -> None:
    bench.begun().intend(intent("1", "2"))
    bench.store_files("1", "2")
    late = bench.claimed("cccccccc")
    bench.recovered("dddddddd")
    after = bench.entry
    (bench.lake / key_of("2")).unlink()
    with pytest.raises(FencedError):
        late.recover(bench.register, bench.left_in_kafka)
    assert bench.entry == after
    assert bench.has("1")
    assert bench.registered == [[key_of("1"), key_of("2")]]


@pytest.mark.parametrize("step", STEPS_OF_A_BATCH)
def test_the_fenced_one_deletes_what_of_its_own_was_rolled_back_and_nothing_else(bench: Bench, step: Step) -> None:
    bench.begun(OURS).intend(intent("old"))
    owner = bench.recovered(THEIRS)  # revokes "old"
    owner.intend(intent("1", "2", batch=0, also=["letter"]))
    bench.store_files("1")
    bench.recovered("cccccccc")  # revokes "1", "2" and "letter"
    bench.store_files("1", "letter", "old", "other")  # uploads that land late
    bench.store.deleted.clear()
    with pytest.raises(FencedError):
        step(owner)
    assert sorted(bench.store.deleted) == [key_of("1"), key_of("2"), key_of("letter")]
    assert not bench.has("1")
    assert not bench.has("letter")
    assert bench.has("old")
    assert bench.has("other")


def test_files_that_the_new_owner_keeps_are_left_alone_by_the_fenced_one(bench: Bench) -> None:
    owner = bench.begun()
    owner.intend(intent("1"))
    bench.store_files("1")
    other = bench.recovered()
    other.intend(intent("2", batch=0))
    bench.recovered("cccccccc")
    with pytest.raises(FencedError):
        owner.done(0)
    assert bench.rolled_back == [key_of("2")]
    assert bench.has("1")


def test_a_deletion_that_does_not_work_is_left_to_the_new_owner(bench: Bench) -> None:
    owner = bench.begun()
    owner.intend(intent("1", "2"))
    bench.recovered()
    bench.store_files("1", "2")
    bench.store.refuse_delete = lambda key: RetryableError(f"deleting {key}", "503")
    with pytest.raises(FencedError):
        owner.verify_ownership()
    assert bench.has("1")


# --- not by an owner ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", STEPS_OF_A_BATCH)
def test_a_table_that_was_deleted_is_not_written_any_more(bench: Bench, step: Step) -> None:
    owner = bench.begun()
    owner.intend(intent("1"))
    bench.delete_entry()
    with pytest.raises(FencedError, match=f"{KEY} is gone: the table was deleted"):
        step(owner)
    assert not (bench.lake / KEY).exists()


@pytest.mark.parametrize("body", [b"", b"junk", b'{"version": 2}', b"[1]"])
@pytest.mark.parametrize("step", STEPS_OF_A_BATCH)
def test_an_entry_overwritten_by_something_else_is_left_as_it_is(bench: Bench, step: Step, body: bytes) -> None:
    owner = bench.begun()
    owner.intend(intent("1"))
    bench.store_files("1")
    bench.overwrite(body)
    with pytest.raises(FencedError, match=f"{KEY} was overwritten by something else: "):
        step(owner)
    assert (bench.lake / KEY).read_bytes() == body
    assert bench.has("1")


def test_a_backup_brought_back_is_not_taken_for_the_own_entry(bench: Bench) -> None:
    owner = bench.begun()
    backup = bench.entry
    owner.intend(intent("1"))
    bench.overwrite(backup.to_body())
    with pytest.raises(FencedError):
        owner.verify_ownership()
    with pytest.raises(FencedError):
        owner.done(0)
    assert bench.entry == backup
