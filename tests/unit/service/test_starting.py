"""The start waits for systems that are not up yet, and not for ever."""

from collections.abc import Callable

import pytest

from app.errors import RetryableError
from app.monitoring.waits import Waits
from app.service.starting import patiently
from app.timings import Timings
from tests.fakes.clock import Clock


def _up_at(seconds: float, clock: Clock) -> Callable[[], str]:
    """A system that answers from this moment on."""

    def ask() -> str:
        if clock() < seconds:
            raise RetryableError("connecting to the lake", "no route to host")
        return "connected"

    return ask


@pytest.mark.parametrize(("absent", "is_waited_for"), [(40.0, True), (100.0, False)])
def test_an_absent_store_is_waited_for_for_a_minute(*, absent: float, is_waited_for: bool) -> None:
    clock, waits = Clock(), Waits()
    begin = clock()
    timings = Timings(clock=clock, sleep=clock.advance)
    connect = _up_at(begin + absent, clock)
    if is_waited_for:
        assert patiently("store", connect, timings, waits) == "connected"
        assert waits.current() == ()
    else:
        with pytest.raises(RetryableError, match="no route to host"):
            patiently("store", connect, timings, waits)
        assert clock() - begin == pytest.approx(60.0, abs=10.0)
