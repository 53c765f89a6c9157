"""How old the first record of a partition is that is consumed and not committed."""

import time

from app.delivery.assignment import Uncommitted


def of(*polls: tuple[int, int | None]) -> Uncommitted:
    """After polls that began at these offsets, with records of these times in ms."""
    uncommitted = Uncommitted()
    for offset, timestamp in polls:
        uncommitted.consumed(offset, timestamp)
    return uncommitted


def test_after_a_commit_the_first_one_behind_it_counts() -> None:
    uncommitted = of((0, 1_000), (10, 2_000), (20, 3_000))
    uncommitted.committed(0, is_all=False)
    assert uncommitted.oldest == 1.0
    uncommitted.committed(10, is_all=False)
    assert uncommitted.oldest == 2.0
    uncommitted.committed(19, is_all=False)
    assert uncommitted.oldest == 2.0, "offset 19 is of the second poll"
    uncommitted.committed(25, is_all=False)
    assert uncommitted.oldest == 3.0
    uncommitted.committed(30, is_all=True)
    assert uncommitted.oldest is None
    uncommitted.consumed(30, 4_000)
    assert uncommitted.oldest == 4.0


def test_records_that_are_read_again_are_as_old_as_before() -> None:
    uncommitted = of((0, 1_000), (10, 2_000), (0, 1_000), (10, 2_000), (20, 3_000))
    uncommitted.committed(20, is_all=False)
    assert uncommitted.oldest == 3.0


def test_a_record_without_a_time_or_from_the_future_counts_from_now() -> None:
    before = time.time()
    for timestamp in (None, 10**15):
        oldest = of((0, timestamp)).oldest
        assert oldest is not None
        assert before <= oldest <= time.time()


def test_of_very_many_polls_the_first_one_is_known_and_later_ones_nearly() -> None:
    uncommitted = of(*((offset, 1_000 * offset) for offset in range(100_000)))
    assert uncommitted.oldest == 0.0
    uncommitted.committed(99_000, is_all=False)
    assert uncommitted.oldest is not None
    assert 98_000 < uncommitted.oldest <= 99_000
