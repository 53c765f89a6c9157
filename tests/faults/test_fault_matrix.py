"""Each step of the delivery meets each fault, at its first, second and last request; then all must be well again.

Of every step, ``EVERY_DAY`` are two: nothing was done, and the server says so; all was done, and nobody hears of it.
The others are slow.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.faults.members import LAST, Table, recover
from tests.faults.proxy import Answer, Cut, Fault, Hang, Lost, Reset, Rule, Say, nth
from tests.faults.steps import STEPS, Step, leave_behind, live, s3_error


def refusal(status: int, code: str, **headers: str) -> Callable[[Step], Fault]:
    """The status, in the words of the server that is asked."""

    def fault(step: Step) -> Fault:
        if step.server == "store":
            return Say(s3_error(status, code, **headers))
        return Say(Answer(status, b'{"error": "said so"}', headers))

    return fault


FAULTS: Mapping[str, Callable[[Step], Fault]] = {
    "429": refusal(429, "TooManyRequests", **{"Retry-After": "1"}),
    "500": refusal(500, "InternalError"),
    "503": refusal(503, "SlowDown"),
    "reset": lambda _: Reset(),
    "hang": lambda _: Hang(),
    "cut body": lambda _: Cut(),
    "lost answer": lambda _: Lost(),
}


EVERY_DAY = {("503", "first"), ("lost answer", "last")}


def places(calls: int) -> dict[str, int]:
    """The requests of a step that are looked at, by name."""
    named = {"first": 1, "second": 2, "last": calls}
    return {
        name: number for name, number in named.items() if number < calls or name == ("last" if calls > 1 else "first")
    }


def cells() -> Iterator[object]:
    for step_name, step in STEPS.items():
        for fault_name in FAULTS:
            for place, number in places(step.calls).items():
                name = f"{step_name}, {fault_name}, {place}"
                are = {place, "last"} if number == step.calls else {place}  # a step of one request has its last first
                marks = () if any((fault_name, each) in EVERY_DAY for each in are) else pytest.mark.night
                yield pytest.param(step, FAULTS[fault_name](step), number, id=name, marks=marks)


@pytest.mark.parametrize(("step", "fault", "number"), list(cells()))
def test_a_step_meets_a_fault(table: Table, tmp_path: Path, step: Step, fault: Fault, number: int) -> None:
    leave_behind(step.left, table, tmp_path)
    rule = Rule(step.matches, fault, nth(number))
    live(table, tmp_path, step, rule)
    assert recover(table, tmp_path) == {LAST + 1}, "something was left to do"
    assert rule.met == 1


@pytest.mark.parametrize("name", STEPS)
def test_the_steps_are_as_many_requests_as_is_said_above(table: Table, tmp_path: Path, name: str) -> None:
    step = STEPS[name]
    leave_behind(step.left, table, tmp_path)
    rule = Rule(step.matches)
    live(table, tmp_path, step, rule)
    assert rule.matched == step.calls
