"""Trying again: how long the pauses are, who is told, and how it ends."""

import logging
import threading
from collections.abc import Callable, Sequence

import pytest

from app.errors import FatalError, RetryableError
from app.retry import Stopped, Waiting, until_it_works
from app.timings import Timings
from tests.fakes.clock import Clock


class Stop(threading.Event):
    """A stop that is never set by itself; its waits take no time and are written down."""

    def __init__(self, clock: Clock, *, set_after: int | None = None) -> None:
        super().__init__()
        self.pauses: list[float] = []
        self._clock = clock
        self._set_after = set_after

    def wait(self, timeout: float | None = None) -> bool:
        self.pauses.append(timeout or 0.0)
        self._clock.advance(timeout or 0.0)
        return len(self.pauses) == self._set_after


def busy(retry_after: float | None = None, cause: str = "busy") -> RetryableError:
    return RetryableError("uploading x", cause, "Wait", retry_after=retry_after)


def failing(errors: Sequence[Exception]) -> Callable[[], str]:
    """Work that fails with each of these, and then succeeds."""
    left = list(errors)

    def work() -> str:
        if left:
            raise left.pop(0)
        return "done"

    return work


def run(
    errors: Sequence[Exception], *, set_after: int | None = None
) -> tuple[list[float], list[RetryableError | None], str | None]:
    """The pauses, what was told, and the result (``None`` when stopped)."""
    clock = Clock()
    stop = Stop(clock, set_after=set_after)
    told: list[RetryableError | None] = []
    try:
        result = until_it_works(failing(errors), stop=stop, on_wait=told.append, timings=Timings(clock=clock))
    except Stopped:
        return stop.pauses, told, None
    return stop.pauses, told, result


def test_what_works_is_done_once_and_nobody_is_told() -> None:
    assert run([]) == ([], [], "done")


def test_pauses_grow_to_half_a_minute_and_stay_there() -> None:
    pauses, _, result = run([busy()] * 12)
    assert result == "done"
    full = [0.5 * 2**tries for tries in range(6)] + [30.0] * 6
    assert all(most / 2 <= pause <= most for pause, most in zip(pauses, full, strict=True))


def test_pauses_differ_from_one_sink_to_the_next() -> None:
    assert len({run([busy()])[0][0] for _ in range(20)}) > 1


@pytest.mark.parametrize(("asked", "pause"), [(17, 17), (86_400, 30)])
def test_the_other_side_may_ask_for_a_longer_pause_up_to_half_a_minute(asked: int, pause: int) -> None:
    assert run([busy(retry_after=asked)])[0] == [pause]


def test_the_other_side_cannot_make_us_ask_without_a_pause() -> None:
    pauses, _, _ = run([busy(retry_after=0)] * 8)
    assert all(pause >= 0.25 for pause in pauses)
    assert pauses[-1] > 10


def test_each_failure_is_told_and_the_end_of_them_too() -> None:
    first, second = busy(), busy()
    assert run([first, second])[1] == [first, second, None]


def test_a_stop_ends_the_waiting() -> None:
    pauses, told, result = run([busy()] * 100, set_after=3)
    assert result is None
    assert len(pauses) == len(told) == 3


def test_another_error_is_not_tried_again() -> None:
    with pytest.raises(FatalError):
        run([busy(), FatalError("uploading x", "no rights")])


def test_a_wait_is_logged_at_its_begin_then_less_and_less_often(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    clock = Clock()
    waiting = Waiting(clock)
    begin, logged_at = clock(), []
    for _ in range(150):
        before = len(caplog.messages)
        waiting.failed(busy())
        if len(caplog.messages) > before:
            logged_at.append(clock() - begin)
        clock.advance(2)
    assert logged_at == [0, 10, 30, 70, 130, 190, 250]
