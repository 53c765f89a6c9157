"""Each step of the delivery meets each fault, at its first, second and last request; then all must be well again.

Of every step, two are for every change: nothing was done, and the server says so; all was done, and nobody hears of it.
The others are of the night.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from app.errors import RetryableError
from app.model import TopicPartition
from app.storage.s3.client import Limits
from tests.faults.members import LAST, TOPIC, FencedOff, Member, Table, recover
from tests.faults.proxy import Answer, Cut, Fault, Hang, Hold, Lost, Reset, Rule, Say, nth, on
from tests.faults.site import Site
from tests.faults.steps import CLAIM, STEPS, Left, Step, leave_behind, live, proxy_of, s3_error
from tests.support.waiting import PATIENCE, wait_until


def refusal(status: int, code: str, *, applied: bool = False) -> Callable[[Step], Fault]:
    """The status, in the words of the server that is asked."""

    def fault(step: Step) -> Fault:
        answer = s3_error(status, code) if step.server == "store" else Answer(status, b'{"error": "said so"}')
        return Say(answer, applied=applied)

    return fault


FAULTS: Mapping[str, Callable[[Step], Fault]] = {
    "429": refusal(429, "TooManyRequests"),
    "500": refusal(500, "InternalError"),
    "503": refusal(503, "SlowDown"),
    "reset": lambda _: Reset(),
    "cut body": lambda _: Cut(),
    "lost answer": lambda _: Lost(),
    "500 when done": refusal(500, "InternalError", applied=True),
}
OF_STORE = {"200 with an error": refusal(200, "InternalError")}
OF_JOURNAL = {
    "409": refusal(409, "ConditionalRequestConflict"),
    "409 when done": refusal(409, "ConditionalRequestConflict", applied=True),
    "412 when done": refusal(412, "PreconditionFailed", applied=True),
}
LATE_GATE = {"take over", "upload"}


def cells() -> Iterator[object]:
    for step_name, step in STEPS.items():
        of_server = OF_STORE if step.server == "store" else {}
        gate = {("503", 1), ("lost answer", step.calls)}
        for fault_name, fault in {**FAULTS, **of_server, **(OF_JOURNAL if step.is_journal else {})}.items():
            for number in sorted({1, min(2, step.calls), step.calls}):
                marks = () if (fault_name, number) in gate else pytest.mark.night
                yield pytest.param(step, fault(step), number, id=f"{step_name}, {fault_name}, {number}", marks=marks)


@pytest.mark.parametrize(("step", "fault", "number"), list(cells()))
def test_a_step_meets_a_fault(table: Table, tmp_path: Path, step: Step, fault: Fault, number: int) -> None:
    """A member comes to the step, where the fault is, and does all the same what there is to do."""
    rule = Rule(step.matches, fault, nth(number))
    leave_behind(step.left, table, tmp_path)
    live(table, tmp_path, step, rule)
    assert rule.met == 1
    table.assert_whole()  # its log says that nothing is left to do


@pytest.mark.parametrize(("left", "phase"), sorted({(step.left, step.phase) for step in STEPS.values()}))
def test_the_steps_are_as_many_requests_as_is_said(table: Table, tmp_path: Path, left: Left, phase: str) -> None:
    steps = {name: step for name, step in STEPS.items() if (step.left, step.phase) == (left, phase)}
    leave_behind(left, table, tmp_path)
    with Member(table, tmp_path) as member:
        if phase == "write":
            member.claim()
        rules = {name: proxy_of(table, step).add(Rule(step.matches)) for name, step in steps.items()}
        if phase == "write":
            member.write()
        else:
            member.claim()
    assert {name: rule.matched for name, rule in rules.items()} == {name: step.calls for name, step in steps.items()}


# --- requests without an answer, and those that arrive late ---------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "number"),
    [
        pytest.param(
            step,
            number,
            id=f"{name}, {number}",
            marks=() if number == step.calls and name in LATE_GATE else pytest.mark.night,
        )
        for name, step in STEPS.items()
        for number in sorted({1, step.calls})
    ],
)
def test_a_request_arrives_after_another_member_has_written_everything(
    table: Table, tmp_path: Path, step: Step, number: int
) -> None:
    leave_behind(step.left, table, tmp_path)
    held = Rule(step.matches, Hold(), nth(number))
    with ThreadPoolExecutor(1) as other_machine:
        former = other_machine.submit(live, table, tmp_path, step, held)
        wait_until(lambda: held.met, "the request")
        with Member(table, tmp_path) as member:
            member.live()
        proxy_of(table, step).release()
        error = former.exception()
    if step.phase == "write":
        assert is_fenced(error), f"{error!r}"
    else:  # a late claim may also take everything back, without harm: then nothing is left to write
        assert error is None or is_fenced(error), f"{error!r}"
    table.assert_whole()
    assert recover(table, tmp_path) == {LAST + 1}


def is_fenced(error: BaseException | None) -> bool:
    return isinstance(error, FencedOff) or (
        isinstance(error, RetryableError) and "was closed by another member" in error.cause
    )


def test_a_store_that_never_answers_is_given_up(site: Site, tmp_path: Path) -> None:
    """As a reset connection is, which the matrix has at each step."""
    store = site.new_store(limits=Limits(read_timeout=0.2, attempts=1))
    site.to_store.add(Rule(on(), Hang()))
    file = tmp_path / "file"
    file.write_bytes(b"rows")
    for ask in (
        lambda: store.read("data/x"),
        lambda: store.write("data/x", b"text", replaces=None),
        lambda: store.upload(file, "data/x"),
        lambda: list(store.list("data/x")),
    ):
        with pytest.raises(RetryableError, match=r"(?i)timed out|timeout"):
            ask()


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_claims_of_many_partitions_are_read_and_written_side_by_side(table: Table, tmp_path: Path, method: str) -> None:
    """Each request waits at the proxy until there are as many as the member may send at once."""
    workers, count = 8, 64
    together = threading.Barrier(workers, timeout=PATIENCE)
    rule = table.site.to_store.add(Rule(on(method, CLAIM), before=lambda _: together.wait()))
    partitions = [TopicPartition(TOPIC, number) for number in range(count)]
    store = table.site.new_store(max_workers=2 * workers)
    with Member(table, tmp_path, store=store, partitions=partitions, workers=workers) as member:
        member.claim()
    assert rule.met == count
    assert not together.broken
