"""Claims that go on at the same moment: of two members, and of one member with many partitions."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from app.errors import RetryableError
from app.model import TopicPartition
from tests.faults.members import TOPIC, FencedOff, Member, Table, recover
from tests.faults.proxy import Request, Rule, on
from tests.faults.steps import CLAIM, STEPS, Left, leave_behind, proxy_of
from tests.support.waiting import PATIENCE

# Where two that claim at once wait for each other: before they send a request of this step.
MEETING = {
    "complete": ["read claim", "read log", "close with a pending batch", "keep", "register theirs", "done theirs"],
    "incomplete": ["check files, one missing", "roll back", "take over after a roll back", "fill"],
    "done": ["take over", "point"],
}
GATE = {"roll back", "point"}


@pytest.mark.parametrize(
    ("left", "name"),
    [
        pytest.param(left, name, marks=() if name in GATE else pytest.mark.night)
        for left, names in MEETING.items()
        for name in names
    ],
)
def test_two_claim_at_once(table: Table, tmp_path: Path, left: Left, name: str) -> None:
    """Of a batch whose files have rows of both partitions each."""
    leave_behind(left, table, tmp_path)
    step = STEPS[name]
    together = threading.Barrier(2 * step.calls, timeout=PATIENCE)
    met: list[str] = []

    def meet(_: Request) -> None:
        if not met:
            together.wait()
            met.append(name)

    proxy_of(table, step).add(Rule(step.matches, before=meet))
    with Member(table, tmp_path) as one, Member(table, tmp_path) as other, ThreadPoolExecutor(2) as machines:
        errors = [future.exception() for future in [machines.submit(member.live) for member in (one, other)]]
    assert met
    assert all(error is None or isinstance(error, FencedOff | RetryableError) for error in errors), errors
    recover(table, tmp_path)


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
