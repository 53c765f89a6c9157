"""Waiting for other systems: how long the pauses are, how it ends, what is logged, counted and shown."""

import logging
import math
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from app.errors import FatalError, RetryableError, SparkLostError, blaming
from app.retries import Operation, Request, Stopped, Waits
from app.timings import Timings
from tests.fakes.clock import Clock

STORE = RetryableError("uploading x", "503").of("store")
CATALOG = RetryableError("registering x", "no route to host", "Check CATALOG_URL").of("catalog")
UPLOAD = Request("store", "uploading files", "upload")


class Stop(threading.Event):
    """A stop that is never set by itself; its waits take no time and are written down."""

    def __init__(self, clock: Clock, set_after: int | None = None) -> None:
        super().__init__()
        self.pauses: list[float] = []
        self._clock = clock
        self._set_after = set_after

    def wait(self, timeout: float | None = None) -> bool:
        self.pauses.append(timeout or 0.0)
        self._clock.advance(timeout or 0.0)
        return len(self.pauses) == self._set_after


class Bench:
    def __init__(self) -> None:
        self.clock = Clock()
        self.counted: list[Operation] = []
        self.waits = Waits(Timings(clock=self.clock), self.counted.append)
        self.stop = Stop(self.clock)
        self.waited = 0.0

    def run(
        self, errors: Sequence[Exception], *, seconds: float = 0.0, give_up_seconds: float = math.inf
    ) -> list[float]:
        """Repeats work that fails with each of these, and takes so long in each try; returns the pauses."""
        left = list(errors)

        def work() -> str:
            self.clock.advance(seconds)
            if left:
                raise left.pop(0)
            return "done"

        def add(waited: float) -> None:
            self.waited += waited

        assert self.waits.retry(UPLOAD, work, stop=self.stop, add_waited=add, give_up_seconds=give_up_seconds) == "done"
        assert self.waits.current() == ()
        return self.stop.pauses


@pytest.fixture
def bench() -> Bench:
    return Bench()


def busy(retry_after: float | None = None, cause: str = "busy") -> RetryableError:
    return RetryableError("uploading x", cause, "Wait", retry_after=retry_after)


# --- trying again ---------------------------------------------------------------------------------------------------


def test_pauses_grow_to_half_a_minute_and_stay_there(bench: Bench) -> None:
    full = [0.5 * 2**tries for tries in range(6)] + [30.0] * 6
    assert all(most / 2 <= pause <= most for pause, most in zip(bench.run([busy()] * 12), full, strict=True))
    assert bench.counted == ["upload"] * 12


def test_pauses_differ_from_one_sink_to_the_next() -> None:
    assert len({Bench().run([busy()])[0] for _ in range(20)}) > 1


@pytest.mark.parametrize(("asked", "pause"), [(17, 17), (86_400, 30)])
def test_the_other_side_may_ask_for_a_longer_pause_up_to_half_a_minute(bench: Bench, asked: int, pause: int) -> None:
    assert bench.run([busy(retry_after=asked)]) == [pause]


def test_the_other_side_cannot_make_us_ask_without_a_pause(bench: Bench) -> None:
    pauses = bench.run([busy(retry_after=0)] * 8)
    assert all(pause >= 0.25 for pause in pauses)
    assert pauses[-1] > 10


def test_each_cause_is_logged_once_and_the_end_of_all(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    bench.run([])
    bench.run([busy(), busy(), busy(cause="refused"), busy()])
    assert caplog.messages == [
        "uploading x: busy. Wait. Retrying until it works",
        "uploading x: refused. Wait. Retrying until it works",
        f"uploading x: it works again after {sum(bench.stop.pauses):.0f} s",
    ]


def test_a_stop_ends_the_wait(bench: Bench) -> None:
    bench.stop = Stop(bench.clock, set_after=3)
    with pytest.raises(Stopped):
        bench.run([busy()] * 100)
    assert len(bench.stop.pauses) == 3
    assert bench.waits.current() == ()


def test_a_wait_ends_when_nobody_wants_the_work_any_more(bench: Bench) -> None:
    def work() -> None:
        raise STORE

    with pytest.raises(Stopped):
        bench.waits.retry(UPLOAD, work, stop=bench.stop, is_wanted=lambda: len(bench.stop.pauses) < 2)
    assert len(bench.stop.pauses) == 2


def test_another_error_is_not_tried_again_and_knows_its_system(bench: Bench) -> None:
    with pytest.raises(FatalError) as caught:
        bench.run([busy(), FatalError("uploading x", "no rights")])
    assert caught.value.system == "store"
    assert bench.waits.current() == ()


@pytest.mark.parametrize(("tries", "works"), [(30, True), (100, False)])
def test_an_absent_system_is_asked_often_and_not_for_ever(bench: Bench, tries: int, *, works: bool) -> None:
    if works:
        assert max(bench.run([busy()] * tries, give_up_seconds=60.0)) <= 2
    else:
        with pytest.raises(RetryableError, match="busy"):
            bench.run([busy()] * tries, give_up_seconds=60.0)
        assert sum(bench.stop.pauses) == pytest.approx(60, abs=2)


def test_the_wait_is_all_but_the_try_that_worked_in_time(bench: Bench) -> None:
    bench.run([busy()] * 2, seconds=1.0)
    assert bench.waited == pytest.approx(2 + sum(bench.stop.pauses))
    bench.waited = 0
    bench.run([], seconds=21.0)
    assert bench.waited == pytest.approx(21)


# --- what is shown --------------------------------------------------------------------------------------------------


def test_a_wait_lasts_from_the_first_failure_until_it_is_over(bench: Bench) -> None:
    waits = bench.waits
    waits.failed(RetryableError("uploading x", "no route to host").of("store"), "upload")
    bench.clock.advance(40)
    waits.failed(STORE, "upload")
    [trouble] = waits.current()
    assert (trouble.system, trouble.cause, trouble.seconds) == ("store", "503", 40)
    assert (waits.failing("register", "upload"), waits.failing("register")) == (STORE, None)
    waits.over()
    assert waits.current() == ()
    assert waits.failing("upload") is None


def test_the_longest_wait_comes_first(bench: Bench) -> None:
    waits = bench.waits
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        one.submit(waits.failed, STORE).result()
        bench.clock.advance(5)
        other.submit(waits.failed, CATALOG).result()
        waits.failed(RetryableError("asking", "no answer").of("Kafka"), since=bench.clock.now - 20)
    assert [(trouble.system, trouble.seconds) for trouble in waits.current()] == [
        ("Kafka", 20),
        ("store", 5),
        ("catalog", 0),
    ]


def test_an_answer_that_does_not_come_is_a_wait_until_it_has_come(bench: Bench) -> None:
    waits, clock = bench.waits, bench.clock
    with waits.answer(replace(UPLOAD, patience=25)):
        clock.advance(25)
        assert waits.current() == ()
        clock.advance(5)
        [trouble] = waits.current()
        assert (trouble.system, trouble.doing, trouble.seconds) == ("store", "uploading files", 30)
        assert trouble.is_unanswered
    assert waits.current() == ()
    waits.failed(STORE)
    with waits.answer(UPLOAD):
        clock.advance(40)
        [trouble] = waits.current()
    assert (trouble.cause, trouble.is_unanswered) == ("503", False), "it failed before, and that is told"


def test_an_error_keeps_the_system_that_is_nearest_to_it() -> None:
    with pytest.raises(FatalError) as caught, blaming("store"), blaming("catalog"):
        raise FatalError("registering", "refused")
    assert caught.value.system == "catalog"
    assert SparkLostError("writing", "gone").system == "Spark"
    assert FatalError("writing", "refused").system is None
