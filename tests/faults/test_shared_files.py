"""Files with rows of several partitions, while the partitions go to different members, or two members claim at once.

Each test leaves a batch of two partitions behind. Its rows are in two files, and each file has rows of both partitions.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from app.errors import RetryableError
from app.storage.base import ObjectStore
from tests.faults.members import BATCHES, PARTITIONS, PLACES, FencedOff, Member, Table, recover, wait_until
from tests.faults.proxy import Hold, Request, Rule, nth, on
from tests.faults.site import Site
from tests.faults.steps import DATA, STEPS, Left, leave_behind, proxy_of

P0, P1 = PARTITIONS
WAIT = 30.0
AWAY = 60.0  # seconds; no time-out of the one that stands still ends its request


@pytest.fixture(scope="module")
def patient(shared_site: Site) -> ObjectStore:
    """A store with time-outs as in production."""
    return shared_site.new_store()


@pytest.mark.parametrize("first", [P0, P1], ids=str)
@pytest.mark.parametrize("left", ["complete", "registered", "incomplete"])
def test_one_partition_is_taken_away_and_then_the_other(
    table: Table, tmp_path: Path, left: Left, first: object
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


def test_the_missing_file_arrives_after_the_first_partition_was_taken(
    table: Table, tmp_path: Path, patient: ObjectStore
) -> None:
    """The owner of the second partition then sees all files, and must follow what was decided without one of them."""
    held = table.site.to_store.add(Rule(on("PUT", DATA), Hold(), nth(len(PLACES))))
    with Member(table, tmp_path, store=patient) as former, ThreadPoolExecutor(1) as other_machine:
        former.claim()
        writing = other_machine.submit(former.write)
        wait_until(lambda: held.met)
        with Member(table, tmp_path, partitions=[P0]) as member, Member(table, tmp_path, partitions=[P1]) as last:
            member.live()
            table.site.to_store.release()
            assert isinstance(writing.exception(), FencedOff)
            last.live()
            assert (member.starts, last.starts) == ({P0: 0}, {P1: 0})
    table.assert_whole()
    recover(table, tmp_path)


# Where two that claim at once wait for each other: before they send a request of this step.
MEETING = {
    "complete": ["read claim", "read log", "close with a pending batch", "keep", "register theirs", "done theirs"],
    "incomplete": ["check files, one missing", "roll back", "take over after a roll back", "fill"],
    "done": ["take over", "point"],
}


@pytest.mark.parametrize(
    ("left", "name"), [(left, name) for left, names in MEETING.items() for name in names], ids=lambda each: each
)
def test_two_claim_at_once(table: Table, tmp_path: Path, patient: ObjectStore, left: Left, name: str) -> None:
    leave_behind(left, table, tmp_path)
    step = STEPS[name]
    together = threading.Barrier(2 * step.calls)

    met: list[str] = []

    def meet(_: Request) -> None:
        if not met:
            together.wait(WAIT)
            met.append(name)

    proxy_of(table, step).add(Rule(step.matches, before=meet))
    with (
        Member(table, tmp_path, store=patient) as one,
        Member(table, tmp_path, store=patient) as other,
        ThreadPoolExecutor(2) as machines,
    ):
        errors = [future.exception() for future in [machines.submit(member.live) for member in (one, other)]]
    assert met
    assert all(error is None or is_fenced(error) for error in errors), errors
    recover(table, tmp_path)


def test_a_late_claimer_closes_the_log_of_a_newer_assignment_amid_its_batch(
    table: Table, tmp_path: Path, patient: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.faults.members.CATALOG_TIMEOUT", AWAY)
    leave_behind("done", table, tmp_path)
    read = STEPS["read claim"]
    late_read = table.site.to_store.add(Rule(read.matches, Hold(), nth(1)))
    with (
        Member(table, tmp_path, store=patient) as late,
        Member(table, tmp_path, store=patient) as newer,
        ThreadPoolExecutor(2) as machines,
    ):
        claiming = machines.submit(late.claim)
        wait_until(lambda: late_read.met)
        newer.claim()
        registers = table.site.to_catalog.add(Rule(on("POST", "/add-files"), Hold(), nth(1)))
        writing = machines.submit(newer.write)
        wait_until(lambda: registers.met)
        table.site.to_store.release()  # what it reads names the newer one
        claiming.result(WAIT)
        assert table.log(P0)["owner"] == late.token
        table.site.to_catalog.release()
        assert isinstance(writing.exception(WAIT), FencedOff)
        assert set(late.starts.values()) == {2 * len(PLACES)}, "the batch was complete"
        late.write(BATCHES)
    table.assert_whole()
    recover(table, tmp_path)


def is_fenced(error: BaseException) -> bool:
    return isinstance(error, FencedOff | RetryableError)
