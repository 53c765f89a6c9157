"""Claims of partitions whose former generation, of the same member, was closed by another one."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from app.journal.claims import Claims

from app.errors import FatalError, RetryableError
from app.journal.journal import LogClosedError
from app.kafka.questions import PartitionOffsets
from tests.support.waiting import wait_until
from tests.unit.journal.claims_bench import AWAY, DENIED, A, B, Bench, claim_of, error_of, through, wait_idle
from tests.unit.journal.journal_bench import P0, P1, P2

CLOSED = "file:///lake/data/t/_journal/group/generations.d/aaaaaaaa.json was closed by another member"
QUESTIONS = 10


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    bench.timings = replace(bench.timings, fenced_seconds=0.02)
    yield bench
    bench.stop()


@pytest.fixture
def claims(bench: Bench) -> Claims:
    """Claims of a member whose first generation, with two partitions, was closed at offset 59."""
    claims = bench.begin(P0, P1, reset="earliest")
    through(claims, 2)
    late = bench.taken_by_another_member(P0, P1)
    late.advance({P0: 59, P1: 59})
    bench.ended.add(A)
    return claims


@pytest.mark.parametrize("committed", [None, 20])
def test_the_partitions_are_claimed_with_a_warning(
    bench: Bench, claims: Claims, caplog: pytest.LogCaptureFixture, committed: int | None
) -> None:
    """Records in the table that are not committed need no explanation."""
    caplog.set_level(logging.WARNING)
    caplog.clear()
    bench.kafka.offsets = replace(bench.kafka.offsets, committed=committed)
    claims.begin([P0, P1], B, CLOSED)
    found = {(claim.tp, claim.start.offset, claim.start.skipped) for claim in through(claims, 2)}
    assert found == {(P0, 60, 0), (P1, 60, 0)}
    assert bench.owner() == B
    (warning,) = caplog.messages
    assert CLOSED in warning


def test_nothing_is_claimed_before_kafka_names_the_member(bench: Bench, claims: Claims) -> None:
    bench.members = [False, AWAY, False]
    bench.store.on_small = lambda *_: asked.append(len(bench.members))
    asked: list[int] = []
    claims.begin([P0, P1], B, CLOSED)
    through(claims, 2)
    assert set(asked) == {0}


@pytest.mark.parametrize("answer", [False, AWAY, DENIED])
def test_a_member_that_kafka_does_not_name_ends_and_claims_nothing(
    bench: Bench, claims: Claims, answer: bool | Exception
) -> None:
    bench.members = [answer] * (1 if answer is DENIED else QUESTIONS)
    before = bench.journals.documents()
    claims.begin([P0, P1], B, CLOSED)
    error = error_of(claims)
    assert isinstance(error, FatalError if answer is DENIED else RetryableError)
    assert (CLOSED in str(error)) == (answer is not DENIED)
    assert not answer or str(answer) in str(error)
    assert bench.members == []
    assert bench.journals.documents() == before


def test_a_member_that_learns_of_its_expulsion_meanwhile_says_nothing(bench: Bench, claims: Claims) -> None:
    bench.members = [False] * QUESTIONS
    bench.ended.add(B)
    claims.begin([P0, P1], B, CLOSED)
    wait_idle(claims)
    assert claims.finished() == []
    assert len(bench.members) == QUESTIONS - 1


@pytest.mark.parametrize(("what", "words"), [("topic", "the topic was recreated"), ("table", "")])
def test_a_recreated_topic_or_a_deleted_table_ends_the_process_and_none_is_begun(
    bench: Bench, claims: Claims, what: str, words: str
) -> None:
    if what == "topic":
        bench.kafka.offsets = PartitionOffsets(None, 0, 100, "another id")
    else:
        for tp in (P0, P1):
            bench.journals.delete(bench.journals.claim_key(tp))
    before = bench.journals.documents()
    claims.begin([P0, P1], B, CLOSED)
    error = error_of(claims)
    assert isinstance(error, RetryableError)
    assert words in str(error)
    assert bench.journals.documents() == before


def test_a_partition_that_was_never_claimed_may_have_no_journal(bench: Bench, claims: Claims) -> None:
    """The log was closed before the first claim was through."""
    claims.begin([P0, P2], B, CLOSED)
    assert {(claim.tp, claim.start.offset) for claim in through(claims, 2)} == {(P0, 60), (P2, 0)}


def test_a_log_that_is_closed_while_its_partitions_are_claimed_is_reported(bench: Bench) -> None:
    """Some partitions are claimed, and Kafka does not give the offsets of the others yet."""

    def close_late() -> None:
        if len(bench.kafka.asked) == 4:
            bench.taken_by_another_member()

    bench.kafka.errors_of[P1] = [AWAY] * 3
    bench.kafka.on_ask = close_late
    claims = bench.begin(P0, P1, reset="earliest")
    through(claims, 1)
    wait_until(lambda: bench.closed, "the closed log is reported")
    wait_idle(claims)
    ((token, error),) = bench.closed
    assert token == A
    assert isinstance(error, LogClosedError)
    assert claims.finished() == []


def test_at_a_first_claim_kafka_is_not_asked_for_the_member(bench: Bench) -> None:
    bench.members = [False]
    claim_of(bench.claims())
    assert bench.members == [False]
