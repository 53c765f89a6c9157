"""Files with rows of several partitions, while the partitions go to different members, or two members claim at once.

Each test leaves a batch of two partitions behind. Its rows are in two files, and each file has rows of both partitions.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from app.errors import RetryableError
from app.model import TopicPartition
from tests.faults.members import PARTITIONS, PLACES, FencedOff, Member, Table, recover
from tests.faults.proxy import Request, Rule
from tests.faults.steps import STEPS, Left, leave_behind, proxy_of
from tests.support.waiting import PATIENCE

P0, P1 = PARTITIONS


@pytest.mark.parametrize(
    ("left", "first"),
    [
        pytest.param(left, first, marks=() if (left, first) == ("incomplete", P0) else pytest.mark.night)
        for left in ("complete", "registered", "incomplete")
        for first in PARTITIONS
    ],
    ids=str,
)
def test_one_partition_is_taken_away_and_then_the_other(
    table: Table, tmp_path: Path, left: Left, first: TopicPartition
) -> None:
    leave_behind(left, table, tmp_path)
    one, other = (P0, P1) if first == P0 else (P1, P0)
    with Member(table, tmp_path, partitions=[one]) as member, Member(table, tmp_path, partitions=[other]) as last:
        member.live()
        last.live()
        already = 0 if left == "incomplete" else len(PLACES)
        assert (member.starts, last.starts) == ({one: already}, {other: already}), "one decision for both"
    table.assert_whole()
    recover(table, tmp_path)


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
    leave_behind(left, table, tmp_path)
    step = STEPS[name]
    together = threading.Barrier(2 * step.calls)

    met: list[str] = []

    def meet(_: Request) -> None:
        if not met:
            together.wait(PATIENCE)
            met.append(name)

    proxy_of(table, step).add(Rule(step.matches, before=meet))
    with (
        Member(table, tmp_path) as one,
        Member(table, tmp_path) as other,
        ThreadPoolExecutor(2) as machines,
    ):
        errors = [future.exception() for future in [machines.submit(member.live) for member in (one, other)]]
    assert met
    assert all(error is None or is_fenced(error) for error in errors), errors
    recover(table, tmp_path)


def is_fenced(error: BaseException) -> bool:
    return isinstance(error, FencedOff | RetryableError)
