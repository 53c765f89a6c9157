"""Work on many items by several threads, with the results in the order of the items."""

import threading
from collections.abc import Iterator

import pytest

from app.work_pool import side_by_side
from tests.support.waiting import wait_for

WORKERS = 3


def test_results_come_in_the_order_of_the_items() -> None:
    slow_first = threading.Event()

    def work(number: int) -> int:
        if number == 0:
            wait_for(slow_first, "another item is done")
        if number == 2:
            slow_first.set()
        return number * number

    assert list(side_by_side(WORKERS, work, range(20))) == [(number, number * number) for number in range(20)]


def test_of_many_items_a_few_are_taken_ahead() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for number in range(1_000):
            taken.append(number)
            yield number

    results = side_by_side(WORKERS, str, items())
    for _ in range(5):
        next(results)
    assert len(taken) <= 5 + 2 * WORKERS


def test_an_error_is_raised_at_its_item_and_ends_the_rest() -> None:
    def work(number: int) -> int:
        if number == 2:
            raise ValueError("no")
        return number

    results = side_by_side(WORKERS, work, range(100))
    assert [next(results), next(results)] == [(0, 0), (1, 1)]
    with pytest.raises(ValueError, match="no"):
        next(results)
    assert list(results) == []
