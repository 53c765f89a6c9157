"""Threads that are there while they have work, and work on many items with results in the order of the items."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from app.work_pool import WorkPool, side_by_side
from tests.support.waiting import wait_for, wait_until

WORKERS = 3


def threads() -> int:
    return sum(thread.name == "pool" for thread in threading.enumerate())


def test_so_many_threads_work_side_by_side_in_order_and_end_without_work() -> None:
    pool, go_on = WorkPool("pool", 2), threading.Event()
    futures = [pool.submit(lambda number: go_on.wait() and number, number) for number in range(5)]
    wait_until(lambda: pool.waiting == 3, "two are under way")
    assert threads() == 2
    go_on.set()
    assert [future.result() for future in futures] == [0, 1, 2, 3, 4]
    wait_until(lambda: threads() == 0, "the end of the threads")
    assert pool.submit(lambda: "again").result() == "again"


def test_an_error_is_of_its_work_alone() -> None:
    pool = WorkPool("pool")
    failed: Future[float] = pool.submit(lambda: 1 / 0)
    assert pool.submit(lambda: 1).result() == 1
    with pytest.raises(ZeroDivisionError):
        failed.result()


def test_a_shutdown_lets_what_is_under_way_end_and_cancels_the_rest() -> None:
    pool, go_on = WorkPool("pool"), threading.Event()
    begun, waiting = pool.submit(go_on.wait), pool.submit(lambda: None)
    wait_until(lambda: pool.waiting == 1, "one is under way")
    pool.shutdown(wait=False, cancel_futures=True)
    assert waiting.cancelled()
    go_on.set()
    pool.join(None)
    assert begun.result()
    with pytest.raises(RuntimeError):
        pool.submit(lambda: None)


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
