"""How checks depend on each other, and what is told of them."""

import json
import threading
from collections.abc import Callable

import pytest

from app.commands.check.checks import Check, Result, State, as_json, run
from app.errors import RetryableError
from tests.support.waiting import PATIENCE, wait_for

LONG = 2 * PATIENCE  # so that a wait tells what it waits for


def check(
    name: str,
    work: Callable[[], str] = lambda: "fine",
    *,
    needs: tuple[str, ...] = (),
    after: tuple[str, ...] = (),
    seconds: float = LONG,
) -> Check:
    return Check(name, f"{name} address", work, seconds, needs, after)


def failing(message: str = "no answer") -> Callable[[], str]:
    def work() -> str:
        raise RetryableError("asking", message, "Look at it")

    return work


def told(*checks: Check) -> dict[str, tuple[str, str]]:
    return {each.name: (result.state, result.detail) for each, result in run(checks)}


def test_each_result_comes_as_soon_as_it_is_known_and_the_last_check_last() -> None:
    may_end, last_is_done = threading.Event(), threading.Event()

    def slow() -> str:
        wait_for(may_end, "the others are done")
        return "late"

    def last() -> str:
        last_is_done.set()
        return "early"

    results = run([check("slow", slow), check("quick"), check("last", last)])
    assert next(results)[0].name == "quick"
    wait_for(last_is_done, "the last check is done")
    may_end.set()
    assert [each.name for each, _ in results] == ["slow", "last"]


def test_what_needs_a_failed_one_is_skipped_and_so_on() -> None:
    asked: list[str] = []

    def ask() -> str:
        asked.append("once")
        return ""

    results = told(
        check("broker", failing()),
        check("topic", ask, needs=("broker",)),
        check("group", ask, needs=("store", "topic")),
        check("store"),
    )

    assert results["topic"] == ("--", "skipped: needs the broker")
    assert results["group"] == ("--", "skipped: needs the topic")
    assert results["store"][0] == "ok"
    assert asked == []


@pytest.mark.parametrize("work", [failing(), lambda: "fine"])
def test_what_comes_after_another_waits_for_it_and_is_done_anyway(work: Callable[[], str]) -> None:
    order: list[str] = []

    def first() -> str:
        order.append("first")
        return work()

    def second() -> str:
        order.append("second")
        return "fine"

    results = told(check("second", second, after=("first",)), check("first", first))

    assert order == ["first", "second"]
    assert results["second"] == ("ok", "fine")


def test_what_hangs_has_failed() -> None:
    go_on = threading.Event()
    results = told(
        check("broker", lambda: str(go_on.wait(LONG)), seconds=0.05), check("topic", needs=("broker",)), check("store")
    )
    go_on.set()

    assert results["broker"][0] == "FAIL"
    assert "broker address: it has not ended within 0 s. Check the address and the network" in results["broker"][1]
    assert results["topic"] == ("--", "skipped: needs the broker")
    assert results["store"] == ("ok", "fine")


@pytest.mark.parametrize("error", [KeyError("odd"), TimeoutError("odd")])
def test_what_nobody_thought_of_is_one_line_too(error: Exception) -> None:
    def work() -> str:
        raise error

    state, detail = told(check("broker", work))["broker"]

    assert state == "FAIL"
    assert detail.startswith(f"broker address: {error!r}. Please report this as a bug")


@pytest.mark.parametrize(("state", "told"), [("ok", "ok"), ("FAIL", "failed"), ("--", "skipped")])
def test_programs_read_an_object_in_json(state: State, told: str) -> None:
    answer = as_json(Check("store", "s3://lake", lambda: "", LONG), Result(state, "a “probe”", 0.1234))

    assert json.loads(answer) == {
        "check": "store",
        "state": told,
        "subject": "s3://lake",
        "detail": "a “probe”",
        "seconds": 0.12,
    }
    assert "\n" not in answer
