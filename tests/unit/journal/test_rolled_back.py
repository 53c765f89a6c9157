"""Placeholders are deleted by a member that has nothing to consume too."""

import pytest

from app.delivery.assignment import Assignment
from app.delivery.member import Member
from app.journal.journal import FencedError
from tests.unit.journal.journal_bench import FORMER, P0, Bench, intent, through

HOUR = 3600


@pytest.fixture
def member(bench: Bench) -> Member:
    return bench.member()


def claim(bench: Bench, member: Member) -> Assignment:
    """Claim a partition whose former owner has left a batch incomplete, which is rolled back."""
    bench.begun(FORMER).intend(intent("1", "2"))
    bench.store_files("1")
    assignment = member.begin([P0])
    through(assignment)
    return assignment


@pytest.mark.parametrize("why", ["ended", "fenced"])
def test_what_is_another_member_s_by_now_is_left_to_it(bench: Bench, member: Member, why: str) -> None:
    assignment = claim(bench, member)
    if why == "ended":
        assignment.end()
    else:
        bench.claimed("another")
        with pytest.raises(FencedError):
            assignment.log.verify()
    bench.epoch.advance(HOUR)
    member.sweep()
    assert bench.store.deleted == []


def test_without_conditional_writes_a_late_upload_is_deleted_at_the_stop(bench: Bench, member: Member) -> None:
    """The member has left the group by then."""
    bench.store.refuses_overwrites = False
    assignment = claim(bench, member)
    assignment.end()
    bench.store_files("2")
    member.stop()
    assert not bench.has("2")
