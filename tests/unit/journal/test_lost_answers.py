"""Writes of a log whose answers get lost: what came through counts, and nobody is fenced by himself."""

from collections.abc import Callable

import pytest

from app.errors import RetryableError
from app.journal.generation import Generation
from tests.unit.journal.journal_bench import P0, Bench, file, intent, progress_at

_TRIES = 4


def patiently(step: Callable[[], object]) -> int:
    """Repeat the step until it works, as its callers do; the number of times that it did not."""
    for failures in range(_TRIES):
        try:
            step()
        except RetryableError:
            continue
        return failures
    raise AssertionError("it does not come to an end")


def take_over(owner: Generation, end: int) -> None:
    owner.take_over([progress_at(P0, end)], ())


def test_a_beginning_repeated_with_another_offset_goes_by_the_later(bench: Bench) -> None:
    """What Kafka says may change between the two."""
    owner = bench.generation()
    bench.store.lost_answers = 1
    with pytest.raises(RetryableError):
        take_over(owner, 9)
    patiently(lambda: take_over(owner, 12))
    assert bench.end() == 12


@pytest.mark.parametrize("lost", [1, 2])
def test_an_intent_whose_answer_is_lost_is_repeated(bench: Bench, lost: int) -> None:
    owner = bench.begun()
    bench.store.lost_answers = lost
    assert patiently(lambda: owner.intend(intent("1"))) == lost
    assert (bench.log().state, bench.log().files, bench.log().seq) == ("pending", (file("1"),), 2)
    owner.verify_ownership()
    owner.done(0)
    assert (bench.log().state, bench.end()) == ("done", 9)


def test_the_end_of_a_batch_whose_answer_is_lost_is_repeated(bench: Bench) -> None:
    owner = bench.begun()
    owner.intend(intent("1"))
    bench.store.lost_answers = 1
    assert patiently(lambda: owner.done(0)) == 1
    assert (bench.log().state, bench.end(), bench.log().seq) == ("done", 9, 3)
    owner.verify_ownership()


@pytest.mark.parametrize(
    ("step", "end", "to"),
    [
        (Generation.verify_ownership, 19, None),
        (lambda owner: owner.intend(intent("1", end=29)), 19, 29),
        (lambda owner: owner.advance({P0: 29}), 29, None),
    ],
)
def test_an_advance_whose_answer_is_lost_and_that_nobody_repeats_fences_nobody(
    bench: Bench, step: Callable[[Generation], None], end: int, to: int | None
) -> None:
    """It is tried again only after a later commit; batches go on meanwhile."""
    owner = bench.begun(end=9)
    bench.store.lost_answers = 1
    with pytest.raises(RetryableError):
        owner.advance({P0: 19})
    patiently(lambda: step(owner))
    (progress,) = bench.log().partitions
    assert (progress.end, progress.to) == (end, to)
    assert owner.log == bench.log()
    owner.verify_ownership()
