"""Claims of partitions in the background: through outages, and no longer than their assignments last."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from app.journal.claims import Claim
from app.journal.generation import Generation

from app.errors import ConfigError, ConnectorError, FatalError, RetryableError
from app.journal.start_offset import Start
from app.kafka.questions import PartitionOffsets
from app.model import TopicPartition
from tests.support.waiting import wait_until
from tests.unit.journal.claims_bench import AWAY, DENIED, FORMER, A, B, Bench, claim_of, error_of, through, wait_idle
from tests.unit.journal.journal_bench import P0, P1


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.stop()


# --- exactly once ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("reset", "offset"), [("earliest", 0), ("latest", 100)])
def test_a_first_claim_begins_a_journal_where_the_settings_say(
    bench: Bench, reset: Literal["earliest", "latest"], offset: int
) -> None:
    claim = claim_of(bench.claims(reset=reset))
    assert claim == Claim(P0, A, Start(offset))
    log, progress = bench.stored()
    assert (log.owner, log.state, progress.end, progress.topic_id) == (A, "done", offset - 1, "id")
    assert bench.ownership.is_owner(A)


def test_no_partition_is_no_claim(bench: Bench) -> None:
    claims = bench.claims()
    claims.begin([], A)
    wait_idle(claims)
    assert (claims.finished(), bench.store.bodies) == ([], {})


@pytest.mark.parametrize("keeps_state", [True, False])
def test_a_claim_goes_on_after_what_is_in_the_lake(bench: Bench, *, keeps_state: bool) -> None:
    """Where state is kept, records come again, and the journal stays where it is."""
    bench.left_behind(41)
    bench.kafka.offsets = PartitionOffsets(40, 0, 100, "id")
    start = claim_of(bench.claims(keeps_state=keeps_state)).start
    assert (start.offset, start.skipped, start.replayed_to) == ((40, 0, 41) if keeps_state else (42, 2, -1))
    assert (bench.owner(), bench.end()) == (A, 41)


def test_where_a_partition_would_begin_is_found_without_a_claim(bench: Bench) -> None:
    bench.left_behind(41)
    before = dict(bench.store.bodies)
    start, kafka = bench.claims(keeps_state=True).look(P0)
    assert (start.offset, kafka) == (42, bench.kafka.offsets)
    bench.kafka.offsets = PartitionOffsets(70, 0, 100, "id")
    with pytest.raises(ConfigError):
        bench.claims().look(P0)
    assert bench.store.bodies == before


def test_a_member_that_goes_on_meanwhile_is_no_other_program(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    generation = bench.left_behind(41)

    def go_on(_: TopicPartition) -> PartitionOffsets:
        generation.advance({P0: 74})
        return PartitionOffsets(75, 0, 100, "id")

    monkeypatch.setattr(bench.kafka, "of", go_on)
    start, _ = bench.claims(keeps_state=True).look(P0)
    assert start.offset == 75


def test_an_offset_moved_by_hand_is_followed_once_for_each_text(bench: Bench) -> None:
    """Later the group's offset is behind because a member ended before its commit: its rows are in the table."""
    bench.left_behind(41)
    bench.kafka.offsets = PartitionOffsets(70, 0, 100, "id", is_set=True)
    claims = bench.claims(follow_offsets="today")
    start = claim_of(claims).start
    assert (start.offset, start.is_set) == (70, True)
    bench.taken_by_another_member().advance({P0: 89})
    assert claim_of(claims, B).start == Start(90, skipped=20, is_set=True)
    assert claim_of(bench.claims(follow_offsets="today"), "cccccccc").start.offset == 90
    assert claim_of(bench.claims(), "dddddddd").start.offset == 90
    bench.kafka.offsets = PartitionOffsets(70, 0, 100, "id")
    assert claim_of(bench.claims(follow_offsets="tomorrow"), "99999999").start == Start(90, skipped=20)
    bench.kafka.offsets = PartitionOffsets(70, 0, 100, "id", is_set=True)
    assert claim_of(bench.claims(follow_offsets="the day after"), "88888888").start.offset == 70


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_a_claim_that_is_repeated_still_follows_an_offset_moved_by_hand(bench: Bench, lost: int) -> None:
    bench.left_behind(41)
    bench.kafka.offsets = PartitionOffsets(70, 0, 100, "id", is_set=True)
    bench.store.lost_write = lost
    assert claim_of(bench.claims(follow_offsets="today")).start.offset == 70
    assert bench.end() == 69


def test_a_journal_is_owned_before_its_claim_is_through(bench: Bench) -> None:
    """Else the first rows would find nobody who may write them."""
    claims = bench.claims()
    before: list[Claim] = []
    take = bench.ownership.take

    def look_and_take(generation: Generation) -> None:
        before.extend(claims.finished())
        take(generation)

    bench.ownership.take = look_and_take  # type: ignore[method-assign]
    assert claim_of(claims).token == A
    assert before == []


# --- outages --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["store", "Kafka", "group"])
def test_a_claim_names_the_system_that_it_waits_for(bench: Bench, what: str) -> None:
    is_away = True

    def away(_: str = "") -> ConnectorError | None:
        return RetryableError("asking", "no route to host") if is_away else None

    def group() -> ConnectorError | None:
        if what == "group" and is_away:
            raise RetryableError("asking", "no route to host")
        return None

    if what == "store":
        bench.store.refuse_small = away
    elif what == "Kafka":
        bench.kafka.errors = [RetryableError("asking", "no answer").of("Kafka")] * 1_000_000

    def waits() -> list[str | None]:
        return [trouble.system for trouble in bench.metrics.waits.current()]

    claims = bench.begin(check_group=group)
    wait_until(lambda: waits() == ["store" if what == "store" else "Kafka"], "the system is named")
    is_away, bench.kafka.errors = False, []
    through(claims)
    wait_until(lambda: waits() == [], "the claim waits for nothing")


def test_an_outage_of_one_generation_does_not_hold_up_the_next(bench: Bench) -> None:
    bench.store.refuse_small = lambda key: AWAY if key.endswith("/0.json") else None
    claims = bench.begin()
    claims.begin([P1], B)
    (claim,) = through(claims)
    assert claim.tp == P1


@pytest.mark.parametrize("ends", ["assignment", "process"])
def test_a_claim_in_an_outage_is_given_up_when_its_assignment_or_the_process_ends(bench: Bench, ends: str) -> None:
    bench.left_behind(41)
    bench.store.refuse_small = lambda _: AWAY
    claims = bench.begin()
    wait_until(bench.metrics.waits.current, "the claim waits for the store")
    if ends == "assignment":
        bench.ended.add(A)
    else:
        claims.stop()
    wait_idle(claims)
    bench.store.refuse_small = lambda _: None
    assert claims.finished() == []
    assert not bench.metrics.waits.current()
    assert bench.owner() == FORMER


def test_a_claim_whose_assignment_ends_while_kafka_is_asked_begins_no_journal(bench: Bench) -> None:
    """It would fence the next owner, who begins one too."""
    bench.kafka.on_ask = lambda: bench.ended.add(A)
    claims = bench.begin()
    wait_idle(claims)
    assert claims.finished() == []
    assert bench.journals.any_claim() is None


def test_a_claim_that_came_through_for_an_ended_assignment_is_left_out(bench: Bench) -> None:
    claims = bench.begin()
    claims.begin([P1], B)
    wait_idle(claims)
    bench.ended.add(A)
    assert [claim.token for claim in claims.finished()] == [B]


# --- failures -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "words"), [(DENIED, "access denied"), (ZeroDivisionError("oops"), r"sensors\[0\].*oops")]
)
def test_a_lasting_failure_is_raised(bench: Bench, error: Exception, words: str) -> None:
    bench.kafka.errors = [error]
    with pytest.raises(FatalError, match=words):
        through(bench.begin())
    assert not bench.ownership.is_owner(A)


@pytest.mark.parametrize("is_ended", [True, False])
def test_a_claim_fenced_is_worth_a_restart_while_its_assignment_stands(bench: Bench, *, is_ended: bool) -> None:
    bench.left_behind(41)
    numbers = iter(range(100))

    def take(what: str, key: str) -> None:
        """Other members claim the partition again and again."""
        if what == "write" and key == bench.journals.claim_key():
            bench.store.on_small = lambda *_: None
            bench.journals.claimed(f"{next(numbers):08x}")
            bench.store.on_small = take
            if is_ended:
                bench.ended.add(A)

    bench.store.on_small = take
    claims = bench.begin()
    wait_idle(claims)
    if is_ended:
        assert claims.finished() == []
    else:
        with pytest.raises(RetryableError, match=r"others claim sensors\[0\]"):
            claims.finished()
    assert not bench.ownership.is_owner(A)


def test_nothing_is_claimed_in_a_group_that_is_not_to_be_joined(bench: Bench) -> None:
    bench.left_behind(41)
    error = RetryableError("joining the group", "another table is written there")
    assert error_of(bench.begin(check_group=lambda: error)) is error
    assert bench.owner() == FORMER


def test_the_journal_of_another_cluster_is_neither_claimed_nor_undone(bench: Bench) -> None:
    """Its owner there would be fenced, and lose the batch that is under way."""
    former = bench.left_behind(41, pending=["1", "2"], cluster_id="one")
    bench.kafka.offsets = PartitionOffsets(40, 0, 100, "id", "two")
    assert isinstance(error_of(bench.begin()), ConfigError)
    former.verify_ownership()
    assert (bench.owner(), bench.stored()[0].state) == (FORMER, "pending")


def test_a_topic_whose_id_is_known_at_last_is_the_same_and_the_id_is_kept(bench: Bench) -> None:
    bench.left_behind(41, topic_id="")
    bench.kafka.offsets = PartitionOffsets(42, 0, 100, "id")
    assert claim_of(bench.claims()).start == Start(42, skipped=0)
    assert bench.stored()[1].topic_id == "id"
    bench.kafka.offsets = PartitionOffsets(42, 0, 100, "")
    assert claim_of(bench.claims(), B).start == Start(42)
    assert bench.stored()[1].topic_id == "id"
    bench.kafka.offsets = PartitionOffsets(None, 0, 30, "")
    assert claim_of(bench.claims(), "cccccccc").start.offset == 0, "it is another one by its offsets"
    assert (bench.end(), bench.stored()[1].topic_id) == (-1, "")


def test_no_answer_about_the_topic_says_nothing_about_it(bench: Bench) -> None:
    claims = bench.claims()
    claim_of(claims)
    bench.kafka.id_errors = [AWAY]
    assert claims.is_same_topic(P0) is None
