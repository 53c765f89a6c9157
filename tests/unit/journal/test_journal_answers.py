"""Writes of the journal whose answers get lost: what came through counts, and nobody is fenced by himself."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from app.errors import RetryableError
from app.journal.entry import JournaledFile
from app.journal.journal import Journal
from tests.unit.journal.journal_bench import OURS, THEIRS, Bench, file, intent, key_of

_TRIES = 3


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.check_versions()


def patiently(step: Callable[[], object]) -> int:
    """Repeat the step until it works, as its callers do; the number of times that it did not."""
    for failures in range(_TRIES):
        try:
            step()
        except RetryableError:
            continue
        return failures
    raise AssertionError("it does not come to an end")


def test_a_beginning_whose_answer_is_lost_is_repeated(bench: Bench) -> None:
    journal = bench.journal()
    journal.claim(lambda: True)
    bench.store.lost_answers = 1
    assert patiently(lambda: journal.begin(9, "id")) == 1
    assert (bench.entry.owner, bench.entry.end, bench.entry.seq) == (OURS, 9, 1)
    journal.verify_ownership()


def test_a_beginning_repeated_with_another_offset_goes_by_the_later(bench: Bench) -> None:
    """What Kafka says may change between the two."""
    journal = bench.journal()
    journal.claim(lambda: True)
    bench.store.lost_answers = 1
    with pytest.raises(RetryableError):
        journal.begin(9, "id")
    patiently(lambda: journal.begin(12, "id"))
    assert bench.entry.end == 12


def test_a_claim_whose_answer_is_lost_is_repeated(bench: Bench) -> None:
    bench.begun(end=9)
    journal = bench.journal(THEIRS)
    bench.store.lost_answers = 1
    assert patiently(lambda: journal.claim(lambda: True)) == 1
    assert (bench.entry.owner, bench.entry.end) == (THEIRS, 9)
    journal.verify_ownership()


def test_a_batch_kept_whose_answer_is_lost_is_kept(bench: Bench) -> None:
    bench.begun().intend(intent("1"))
    bench.store_files("1")
    journal = bench.claimed()
    bench.store.lost_answers = 1
    assert patiently(lambda: journal.recover(bench.register, bench.left_in_kafka)) == 1
    assert (bench.entry.state, bench.entry.end) == ("done", 9)
    assert bench.registered == [[key_of("1")]]
    assert bench.has("1")


def test_the_end_of_a_kept_batch_whose_answer_is_lost_is_found_by_the_next_claim(bench: Bench) -> None:
    bench.begun().intend(intent("1"))
    bench.store_files("1")
    journal = bench.claimed()

    def register(files: Sequence[JournaledFile]) -> None:
        bench.register(files)
        bench.store.lost_answers = 1

    with pytest.raises(RetryableError):
        journal.recover(register, bench.left_in_kafka)
    claim_and_recover(bench, journal)
    assert (bench.entry.state, bench.entry.end) == ("done", 9)
    assert bench.registered == [[key_of("1")]]
    assert bench.has("1")


def claim_and_recover(bench: Bench, journal: Journal) -> None:
    journal.claim(lambda: True)
    journal.recover(bench.register, bench.left_in_kafka)


def lose_answer_of_settling(bench: Bench) -> Journal:
    journal = bench.claimed()
    bench.store.lost_answers = 1
    with pytest.raises(RetryableError):
        journal.recover(bench.register, bench.left_in_kafka)
    return journal


def test_a_batch_undone_whose_answer_is_lost_is_undone(bench: Bench) -> None:
    bench.begun().intend(intent("1", "2"))
    bench.store_files("1")
    journal = lose_answer_of_settling(bench)
    claim_and_recover(bench, journal)
    assert (bench.entry.state, bench.entry.end) == ("done", -1)
    assert bench.rolled_back == [key_of("1"), key_of("2")]
    assert not bench.has("1")
    assert bench.registered == []


def test_an_undone_batch_is_not_kept_when_its_missing_file_appears_after_the_lost_answer(bench: Bench) -> None:
    bench.begun().intend(intent("1", "2"))
    bench.store_files("1")
    journal = lose_answer_of_settling(bench)
    bench.store_files("2")
    claim_and_recover(bench, journal)
    assert bench.registered == []
    assert (bench.entry.state, bench.entry.end) == ("done", -1)
    assert not bench.has("1")
    assert not bench.has("2")


@pytest.mark.parametrize("lost", [1, 2])
def test_an_intent_whose_answer_is_lost_is_repeated(bench: Bench, lost: int) -> None:
    journal = bench.begun()
    bench.store.lost_answers = lost
    assert patiently(lambda: journal.intend(intent("1"))) == lost
    assert (bench.entry.state, bench.entry.files, bench.entry.seq) == ("pending", (file("1"),), 2)
    journal.verify_ownership()
    journal.done(0)
    assert (bench.entry.state, bench.entry.end) == ("done", 9)


def test_the_end_of_a_batch_whose_answer_is_lost_is_repeated(bench: Bench) -> None:
    journal = bench.begun()
    journal.intend(intent("1"))
    bench.store.lost_answers = 1
    assert patiently(lambda: journal.done(0)) == 1
    assert (bench.entry.state, bench.entry.end, bench.entry.seq) == ("done", 9, 3)
    journal.verify_ownership()


def look(journal: Journal) -> None:
    journal.verify_ownership()


def intend(journal: Journal) -> None:
    journal.intend(intent("1", end=29))


def advance_further(journal: Journal) -> None:
    journal.advance(29)


def switch_off(journal: Journal) -> None:
    journal.switch_off()


@pytest.mark.parametrize("step", [look, intend, advance_further, switch_off])
def test_an_advance_whose_answer_is_lost_and_that_nobody_repeats_fences_nobody(
    bench: Bench, step: Callable[[Journal], None]
) -> None:
    """It is tried again only after a later commit; batches go on meanwhile."""
    journal = bench.begun(end=9)
    bench.store.lost_answers = 1
    with pytest.raises(RetryableError):
        journal.advance(19)
    patiently(lambda: step(journal))
    assert bench.entry.owner == OURS
    assert bench.entry.end == (19 if step in (look, switch_off) else 29)
    assert journal.entry == bench.entry
    journal.verify_ownership()


def test_an_advance_in_the_midst_of_an_intent_whose_answer_is_lost_changes_nothing(bench: Bench) -> None:
    journal = bench.begun()
    bench.store.lost_answers = 1
    with pytest.raises(RetryableError):
        journal.intend(intent("1"))
    patiently(lambda: journal.advance(99))
    patiently(lambda: journal.intend(intent("1")))
    assert (bench.entry.state, bench.entry.files, bench.entry.end) == ("pending", (file("1"),), 9)
    journal.verify_ownership()


def test_a_write_that_was_lost_itself_is_repeated(bench: Bench) -> None:
    journal = bench.begun()
    bench.store.refuse_small = lambda key: RetryableError(f"writing {key}", "no route to host")
    with pytest.raises(RetryableError):
        journal.intend(intent("1"))
    assert bench.entry.state == "done"
    bench.store.refuse_small = lambda _: None
    journal.intend(intent("1"))
    assert (bench.entry.state, bench.entry.seq) == ("pending", 2)
