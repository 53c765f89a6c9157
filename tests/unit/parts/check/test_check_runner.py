"""How checks depend on each other, and what is told of them."""

import json
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from app.errors import RetryableError
from app.parts.check.check_runner import Check, Result, State, as_json, line, run
from tests.support.waiting import PATIENCE, wait_for

LONG = 2 * PATIENCE  # so that a wait tells what it waits for


def check(
    name: str, work: Callable[[], str] = lambda: "fine", *, needs: tuple[str, ...] = (), seconds: float = LONG
) -> Check:
    return Check(name, f"{name} address", work, needs, seconds)


def failing() -> Callable[[], str]:
    def work() -> str:
        raise RetryableError("asking", "no answer", "Look at it")

    return work


def told(*checks: Check) -> dict[str, tuple[str, str]]:
    return {each.name: (result.state, result.detail) for each, result in run(checks)}


def test_results_come_one_by_one_and_an_early_check_begins_with_the_first() -> None:
    last_is_done = threading.Event()
    order: list[str] = []

    def last() -> str:
        last_is_done.set()
        return "early"

    def note() -> str:
        order.append("done")
        return "fine"

    results = run([check("first", note), check("second", note)], [check("last", last)])
    assert next(results)[0].name == "first"
    assert order == ["done"]
    wait_for(last_is_done, "the last check is done")
    assert [each.name for each, _ in results] == ["second", "last"]


def test_what_needs_a_failed_one_is_skipped_and_so_on_and_the_others_go_on() -> None:
    asked: list[str] = []

    def ask() -> str:
        asked.append("once")
        return ""

    results = told(
        check("broker", failing()),
        check("topic", ask, needs=("broker",)),
        check("store"),
        check("group", ask, needs=("store", "topic")),
    )

    assert results["broker"] == ("FAIL", "asking: no answer. Look at it")
    assert results["topic"] == ("--", "skipped: needs the broker")
    assert results["group"] == ("--", "skipped: needs the topic")
    assert results["store"] == ("ok", "fine")
    assert asked == []


def test_what_fails_for_one_table_is_skipped_for_that_table_alone() -> None:
    def of(table: str, name: str, work: Callable[[], str] = lambda: "fine", needs: tuple[str, ...] = ()) -> Check:
        return replace(check(name, work, needs=needs), table=table)

    checks = [check("store"), of("orders", "catalog", failing())]
    checks += [of(table, "table", needs=("store", "catalog")) for table in ("orders", "payments")]
    assert [line(*each).split()[:3] for each in run(checks)] == [
        ["ok", "store", "store"],
        ["FAIL", "catalog", "orders:"],
        ["--", "table", "orders:"],
        ["ok", "table", "payments:"],
    ]


def test_what_hangs_has_failed() -> None:
    go_on = threading.Event()
    hanging = check("broker", lambda: str(go_on.wait(LONG)), seconds=0.05)
    results = told(hanging, check("topic", needs=("broker",)), check("store"))
    go_on.set()

    assert results["broker"][0] == "FAIL"
    assert "broker address: no answer within 0 s. Check the address and the network" in results["broker"][1]
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
    answer = as_json(Check("store", "s3://lake", str), Result(state, "a “probe”", 0.1234), ["odd"])

    assert json.loads(answer) == {
        "check": "store",
        "state": told,
        "subject": "s3://lake",
        "detail": "a “probe”",
        "seconds": 0.12,
        "warnings": ["odd"],
    }
    assert "\n" not in answer
