"""Claims of partitions in the background: through outages, and no longer than their assignments last."""

from datetime import UTC, datetime
from typing import Literal

import pytest

from app.delivery.assignment import Assignment, Claimed
from app.errors import ConfigError, ConnectorError, FatalError, RetryableError
from app.journal.start_offset import Start
from app.kafka.questions import PartitionOffsets
from app.model import TopicPartition
from tests.support.waiting import wait_until
from tests.support.world import (
    AWAY,
    FORMER,
    OURS,
    P0,
    P1,
    THEIRS,
    THIRD,
    World,
    claim_of,
    intent,
    through,
    wait_idle,
)

DENIED = FatalError("asking", "access denied")
TIME = datetime(2026, 11, 1, tzinfo=UTC)


# --- exactly once ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("reset", "offset"), [("earliest", 0), ("latest", 100)])
def test_a_first_claim_begins_a_journal_where_the_settings_say(
    world: World, reset: Literal["earliest", "latest"], offset: int
) -> None:
    assert claim_of(world.new_member(reset=reset)) == Claimed(P0, Start(offset))
    assert (world.owner(), world.log().state) == (OURS, "done")
    assert (world.end(), world.progress().topic_id) == (offset - 1, "id")


def test_no_partition_is_no_claim(world: World) -> None:
    member = world.new_member()
    assignment = member.begin([])
    wait_idle(member)
    assert (assignment.new_claims(), world.store.bodies) == ([], {})


@pytest.mark.parametrize("keeps_state", [True, False])
def test_a_claim_goes_on_after_what_is_in_the_lake(world: World, *, keeps_state: bool) -> None:
    """Where state is kept, records come again, and the journal stays where it is."""
    world.begun(FORMER, end=41)
    world.kafka.offsets = PartitionOffsets(40, 0, 100, "id")
    start = claim_of(world.new_member(keeps_state=keeps_state)).start
    assert (start.offset, start.skipped, start.replayed_to) == ((40, 0, 41) if keeps_state else (42, 2, -1))
    assert (world.owner(), world.end()) == (OURS, 41)


def test_where_a_partition_would_begin_is_found_without_a_claim(world: World) -> None:
    world.begun(FORMER, end=41)
    before = world.documents()
    start, kafka = world.new_member(keeps_state=True).would_begin(P0)
    assert (start.offset, kafka) == (42, world.kafka.offsets)
    world.kafka.offsets = PartitionOffsets(70, 0, 100, "id")
    with pytest.raises(ConfigError):
        world.new_member().would_begin(P0)
    assert world.documents() == before


def test_a_member_that_goes_on_meanwhile_is_no_other_program(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    former = world.begun(FORMER, end=41)

    def go_on(_: TopicPartition) -> PartitionOffsets:
        former.advance({P0: 74})
        return PartitionOffsets(75, 0, 100, "id")

    monkeypatch.setattr(world.kafka, "of", go_on)
    start, _ = world.new_member(keeps_state=True).would_begin(P0)
    assert start.offset == 75


def test_an_offset_that_another_member_commits_during_a_claim_is_no_other_programs(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member that was cut off from Kafka closes a log, and gets the answer once the next owner has gone on."""
    world.begun(FORMER, end=41)
    asked: list[TopicPartition] = []

    def ask(tp: TopicPartition) -> PartitionOffsets:
        asked.append(tp)
        if len(asked) == 1:
            world.claimed("another").advance({P0: 89})
        return PartitionOffsets(42 if len(asked) == 2 else 90, 0, 100, "id")

    monkeypatch.setattr(world.kafka, "of", ask)
    assert claim_of(world.new_member()).start.offset == 90


def test_an_offset_moved_by_hand_is_followed_once_for_each_text(world: World) -> None:
    """Later the group's offset is behind because a member ended before its commit: its rows are in the table."""

    def start(text: str) -> Start:
        return claim_of(world.new_member(follow_offsets=text)).start

    world.begun(FORMER, end=41)
    world.kafka.offsets = PartitionOffsets(70, 0, 100, "id", is_set=True)
    member = world.new_member(follow_offsets="today")
    first = claim_of(member).start
    assert (first.offset, first.is_set) == (70, True)
    world.claimed("another").advance({P0: 89})
    assert claim_of(member).start == Start(90, skipped=20, is_set=True)
    assert start("today").offset == start("").offset == 90
    world.kafka.offsets = PartitionOffsets(70, 0, 100, "id")
    assert start("tomorrow") == Start(90, skipped=20)
    world.kafka.offsets = PartitionOffsets(70, 0, 100, "id", is_set=True)
    assert start("the day after").offset == 70


def test_a_time_is_followed_once_for_each_text_though_two_of_them_take_turns(world: World) -> None:
    """As in a rolling update."""
    world.begun(FORMER, end=89)
    world.kafka.offsets = PartitionOffsets(90, 0, 100, "id")

    def start(text: str) -> int:
        return claim_of(world.new_member(follow_offsets=text, reset=TIME)).start.offset

    world.kafka.times = {0: 40}
    assert start("yesterday") == 40
    world.kafka.times = {0: 70}
    assert start("today") == 70
    world.kafka.offsets = PartitionOffsets(70, 0, 100, "id")  # as it is marked
    world.claimed("another").advance({P0: 89})
    assert [start("yesterday"), start("today")] == [90, 90]


@pytest.mark.parametrize("low", [60, 70])
def test_a_time_whose_records_expire_is_followed_though_the_member_dies_before_its_first_commit(
    world: World, low: int
) -> None:
    """The group's offset is still that of before, ahead of the journal."""
    world.begun(FORMER, end=79)
    world.kafka.times = {0: 40}
    world.kafka.offsets = PartitionOffsets(80, 60, 100, "id")
    assert claim_of(world.new_member(follow_offsets="today", reset=TIME)).start.offset == 60
    world.kafka.offsets = PartitionOffsets(80, low, 100, "id")
    start = claim_of(world.new_member(follow_offsets="today", reset=TIME)).start
    assert (start.offset, start.is_set) == (low, True)


def test_a_loss_is_told_also_where_what_was_rolled_back_is_removed_at_the_second_try(world: World) -> None:
    world.begun(FORMER, end=41).intend(intent("1", end=49))
    world.kafka.offsets = PartitionOffsets(42, 60, 100, "id")
    answers = [AWAY]
    world.store.refuse_removal = lambda _: answers.pop() if answers else None
    start = claim_of(world.new_member()).start
    assert (start.offset, start.is_loss) == (60, True)
    assert world.is_filled("1")


# --- outages --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["store", "Kafka", "group"])
def test_a_claim_names_the_system_that_it_waits_for(world: World, what: str) -> None:
    is_away = True

    def group() -> ConnectorError | None:
        if what == "group" and is_away:
            raise RetryableError("asking", "no route to host")
        return None

    if what == "store":
        world.store.refuse_small = lambda _: RetryableError("asking", "no route to host") if is_away else None
    elif what == "Kafka":
        world.kafka.errors = [RetryableError("asking", "no answer").of("Kafka")] * 1_000_000

    def waits() -> list[str | None]:
        return [trouble.system for trouble in world.metrics.waits.current()]

    assignment = world.new_member(check_group=group).begin([P0])
    wait_until(lambda: waits() == ["store" if what == "store" else "Kafka"], "the system is named")
    is_away, world.kafka.errors = False, []
    through(assignment)
    wait_until(lambda: waits() == [], "the claim waits for nothing")


@pytest.mark.parametrize("ends", ["assignment", "process"])
def test_a_claim_in_an_outage_is_given_up_when_its_assignment_or_the_process_ends(world: World, ends: str) -> None:
    """The next assignment does not wait for it."""
    world.begun(FORMER, end=41)
    world.store.refuse_small = lambda key: AWAY if key.endswith("/0.json") else None
    member = world.new_member()
    assignment = member.begin([P0])
    wait_until(world.metrics.waits.current, "the claim waits for the store")
    if ends == "assignment":
        assert through(member.begin([P1])) == [Claimed(P1, Start(0))]
    else:
        member.stop()
    wait_idle(member)
    world.store.refuse_small = lambda _: None
    assert assignment.new_claims() == []
    assert not world.metrics.waits.current()
    assert world.owner() == FORMER


def test_a_claim_whose_assignment_ends_while_kafka_is_asked_begins_no_journal(world: World) -> None:
    """It would fence the next owner, who begins one too."""

    def end() -> None:
        member.end()

    world.kafka.on_ask = end
    member = world.new_member()
    assignment = member.begin([P0])
    wait_idle(member)
    assert assignment.new_claims() == []
    assert world.documents() == {}


# --- failures -------------------------------------------------------------------------------------------------------


def error_of(assignment: Assignment) -> ConnectorError:
    with pytest.raises(ConnectorError) as raised:
        through(assignment)
    return raised.value


@pytest.mark.parametrize(
    ("error", "words"), [(DENIED, "access denied"), (ZeroDivisionError("oops"), r"sensors\[0\].*oops")]
)
def test_a_lasting_failure_is_raised(world: World, error: Exception, words: str) -> None:
    world.kafka.errors = [error]
    with pytest.raises(FatalError, match=words):
        through(world.new_member().begin([P0]))


@pytest.mark.parametrize("is_ended", [True, False])
def test_a_claim_fenced_is_worth_a_restart_while_its_assignment_stands(world: World, *, is_ended: bool) -> None:
    world.begun(FORMER, end=41)
    numbers = iter(range(100))
    member = world.new_member()

    def take(what: str, key: str) -> None:
        if what == "write" and key == world.claim_key():
            world.store.on_small = lambda *_: None
            world.claimed(f"{next(numbers):08x}")
            world.store.on_small = take
            if is_ended:
                member.end()

    world.store.on_small = take
    assignment = member.begin([P0])
    wait_idle(member)
    if is_ended:
        assert assignment.new_claims() == []
    else:
        with pytest.raises(RetryableError, match=r"members claim sensors\[0\]"):
            assignment.new_claims()


def test_nothing_is_claimed_in_a_group_that_is_not_to_be_joined(world: World) -> None:
    world.begun(FORMER, end=41)
    error = RetryableError("joining the group", "another table is written there")
    assert error_of(world.new_member(check_group=lambda: error).begin([P0])) is error
    assert world.owner() == FORMER


def test_the_journal_of_another_cluster_is_neither_claimed_nor_undone(world: World) -> None:
    """Its owner there would be fenced, and lose the batch that is under way."""
    former = world.begun(FORMER, end=41, cluster_id="one")
    former.intend(intent("1", "2", end=51))
    world.kafka.offsets = PartitionOffsets(40, 0, 100, "id", "two")
    assert isinstance(error_of(world.new_member().begin([P0])), ConfigError)
    former.verify()
    assert (world.owner(), world.log(FORMER).state) == (FORMER, "pending")


def test_a_topic_whose_id_is_known_at_last_is_the_same_and_the_id_is_kept(world: World) -> None:
    world.begun(FORMER, end=41, topic_id="")
    world.kafka.offsets = PartitionOffsets(42, 0, 100, "id")
    assert claim_of(world.new_member()).start == Start(42, skipped=0)
    assert world.progress(OURS).topic_id == "id"
    world.kafka.offsets = PartitionOffsets(42, 0, 100, "")
    assert claim_of(world.new_member()).start == Start(42)
    assert world.progress(THEIRS).topic_id == "id"
    world.kafka.offsets = PartitionOffsets(None, 0, 30, "")
    assert claim_of(world.new_member()).start.offset == 0, "it is another one by its offsets"
    assert (world.end(THIRD), world.progress(THIRD).topic_id) == (-1, "")
