"""Claims of partitions whose log, of the same member, was closed by another one."""

import logging
from dataclasses import replace

import pytest

from app.delivery.member import Member
from app.errors import ConnectorError, FatalError, RetryableError
from app.kafka.questions import PartitionOffsets
from tests.support.waiting import wait_until
from tests.support.world import AWAY, P0, P1, P2, THEIRS, World, claim_of, through, wait_idle

CLOSED = "file:///lake/data/t/_journal/group/generations.d/aaaaaaaa.json was closed by another member"
DENIED = FatalError("asking", "access denied")
QUESTIONS = 10


@pytest.fixture
def member(world: World) -> Member:
    """That of a member whose first log, with two partitions, was closed at offset 59."""
    member = world.new_member()
    through(member.begin([P0, P1]), 2)
    world.claimed("another", [P0, P1]).advance({P0: 59, P1: 59})
    return member


@pytest.mark.parametrize("committed", [None, 20])
def test_the_partitions_are_claimed_with_a_warning(
    world: World, member: Member, caplog: pytest.LogCaptureFixture, committed: int | None
) -> None:
    """Records in the table that are not committed need no explanation."""
    caplog.set_level(logging.WARNING)
    caplog.clear()
    world.kafka.offsets = replace(world.kafka.offsets, committed=committed)
    found = {
        (claim.tp, claim.start.offset, claim.start.skipped) for claim in through(member.begin([P0, P1], CLOSED), 2)
    }
    assert found == {(P0, 60, 0), (P1, 60, 0)}
    assert world.owner() == THEIRS
    (warning,) = caplog.messages
    assert CLOSED in warning


def test_nothing_is_claimed_before_kafka_names_the_member(world: World, member: Member) -> None:
    world.members = [False, AWAY, False]
    world.store.on_small = lambda *_: asked.append(len(world.members))
    asked: list[int] = []
    through(member.begin([P0, P1], CLOSED), 2)
    assert set(asked) == {0}


@pytest.mark.parametrize("answer", [False, AWAY, DENIED])
def test_a_member_that_kafka_does_not_name_ends_and_claims_nothing(
    world: World, member: Member, answer: bool | Exception
) -> None:
    world.members = [answer] * (1 if answer is DENIED else QUESTIONS)
    before = world.documents()
    with pytest.raises(ConnectorError) as raised:
        through(member.begin([P0, P1], CLOSED))
    assert isinstance(raised.value, FatalError if answer is DENIED else RetryableError)
    assert (CLOSED in str(raised.value)) == (answer is not DENIED)
    assert not answer or str(answer) in str(raised.value)
    assert world.members == []
    assert world.documents() == before


def test_a_member_that_learns_of_its_expulsion_meanwhile_says_nothing(world: World, member: Member) -> None:
    """It has lost the partitions in Kafka."""
    world.members = [False] * QUESTIONS
    world.on_question = lambda: member.begin([])
    assignment = member.begin([P0, P1], CLOSED)
    wait_idle(member)
    assert assignment.new_claims() == []
    assert len(world.members) == QUESTIONS - 1


@pytest.mark.parametrize(("what", "words"), [("topic", "was recreated"), ("table", "is missing")])
def test_a_recreated_topic_or_a_deleted_table_ends_the_process_and_none_is_begun(
    world: World, member: Member, what: str, words: str
) -> None:
    if what == "topic":
        world.kafka.offsets = PartitionOffsets(None, 0, 100, "another id")
    else:
        for tp in (P0, P1):
            world.delete(world.claim_key(tp))
    before = world.documents()
    with pytest.raises(RetryableError, match=words):
        through(member.begin([P0, P1], CLOSED))
    assert world.documents() == before


def test_a_partition_that_was_never_claimed_may_have_no_journal(member: Member) -> None:
    """The log was closed before the first claim was through."""
    claims = through(member.begin([P0, P2], CLOSED), 2)
    assert {(claim.tp, claim.start.offset) for claim in claims} == {(P0, 60), (P2, 0)}


def test_a_log_that_is_closed_while_its_partitions_are_claimed_is_noticed(world: World) -> None:
    """Some partitions are claimed, and Kafka does not give the offsets of the others yet."""

    def close_late() -> None:
        if len(world.kafka.asked) == 4:
            world.claimed("another")

    world.kafka.errors_of[P1] = [AWAY] * 3
    world.kafka.on_ask = close_late
    member = world.new_member()
    assignment = member.begin([P0, P1])
    through(assignment)
    wait_until(lambda: assignment.fenced, "the closed log is noticed")
    wait_idle(member)
    assert assignment.fenced.keys() == {P0, P1}
    assert "was closed by another member" in assignment.fenced[P0]
    assert assignment.new_claims() == []


def test_at_a_first_claim_kafka_is_not_asked_for_the_member(world: World) -> None:
    world.members = [False]
    claim_of(world.new_member())
    assert world.members == [False]
