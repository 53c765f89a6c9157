"""One life of a topic-partition: its token, its waiting rows, its batches."""

import re
import subprocess
import sys

import pytest

from app.consumer.assignment import Assignment, Assignments, new_token
from app.journal.document import FencedError, LogClosedError
from app.model import TopicPartition
from app.monitoring.metrics import Metrics
from tests.support.batches import TP, row


def test_each_assignment_has_a_token_of_its_own() -> None:
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100
    assert all(re.fullmatch("[0-9a-f]{24}", token) for token in tokens)


def test_two_processes_have_different_tokens() -> None:
    script = "from app.consumer.assignment import new_token; print(new_token())"
    tokens = {subprocess.run([sys.executable, "-c", script], check=True, capture_output=True).stdout for _ in range(2)}
    assert len(tokens) == 2


def test_rows_that_come_late_are_within_the_offsets_of_their_batch() -> None:
    life = Assignment(TP, "token")
    life.rows += [row({}, 5), row({}, 6), row({}, 2)]
    part, _, _ = life.seal()
    assert (part.offsets.first, part.offsets.last) == (2, 6)


def test_rows_of_a_former_assignment_are_repeated_also_after_a_rewind() -> None:
    life = Assignment(TP, "token")
    life.replay(2, 5)
    assert life.is_repeated(3)
    life.rewind()
    assert [life.is_repeated(offset) for offset in (2, 5, 6, 3)] == [True, True, False, False]


def test_what_is_given_out_late_while_others_are_repeated_is_no_repetition() -> None:
    life = Assignment(TP, "token")
    life.replay(200, 500)
    assert [life.is_repeated(offset) for offset in (200, 100, 500)] == [True, False, True]


# --- all assignments ------------------------------------------------------------------------------------------------


def test_a_new_assignment_has_nothing_of_the_former_one() -> None:
    assignments = Assignments()
    former = assignments.begin([TP])
    assignments.start(TP, 42, replayed_to=50)
    assignments.fence(former, FencedError("another member has claimed it"))
    present = assignments.begin([TP])
    assert [assignments.is_current(token) for token in (former, present)] == [False, True]
    assert assignments.token(TP) == present
    assert assignments.expected(TP) == 0
    assert not assignments.is_any_fenced
    assert not assignments.by_tp[TP].is_repeated(45)


OTHER = TopicPartition("sensors", 7)


def test_partitions_that_are_assigned_together_have_one_token_and_are_fenced_together() -> None:
    assignments = Assignments()
    token = assignments.begin([TP, OTHER])
    assert assignments.token(TP) == assignments.token(OTHER) == token
    assignments.fence(token, FencedError("another member has claimed one of them"))
    assert all(assignments.by_tp[tp].fenced for tp in (TP, OTHER))


@pytest.mark.parametrize("is_renewed", [True, False])
def test_a_generation_ends_with_the_first_of_its_partitions(*, is_renewed: bool) -> None:
    assignments = Assignments()
    token = assignments.begin([TP, OTHER])
    if is_renewed:
        assert assignments.begin([OTHER]) != token
    else:
        assignments.end([OTHER])
    assert not assignments.is_current(token)
    assert assignments.token(TP) == token


def test_an_ended_assignment_is_not_there() -> None:
    assignments = Assignments()
    token = assignments.begin([TP])
    assignments.end([TP])
    assignments.expect(TP, 7)
    assignments.fence(token, FencedError("too late"))
    assert TP not in assignments
    assert not assignments.is_current(token)
    assert (assignments.token(TP), assignments.expected(TP), assignments.is_any_fenced) == (None, 0, False)


def test_a_partition_is_read_from_where_it_starts() -> None:
    assignments = Assignments()
    assignments.begin([TP])
    assignments.start(TP, 42, replayed_to=50)
    assert assignments.expected(TP) == 42
    assert [assignments.by_tp[TP].is_repeated(offset) for offset in (42, 50, 51)] == [True, True, False]


def test_fences_are_counted() -> None:
    metrics = Metrics()
    assignments = Assignments(metrics)
    assignments.fence(assignments.begin([TP]), FencedError("another member has claimed it"))
    assert metrics.counts().fenced == 1


def test_a_closed_generation_is_told_with_all_its_partitions_and_only_as_a_whole() -> None:
    assignments = Assignments()
    token = assignments.begin([TP, OTHER])
    assert assignments.closed is None
    assignments.fence(token, LogClosedError("closed"))
    assert assignments.closed == ([TP, OTHER], "closed")
    assignments.end([OTHER])
    assert assignments.closed is None


def test_a_generation_fenced_for_another_reason_is_not_closed() -> None:
    assignments = Assignments()
    assignments.fence(assignments.begin([TP]), FencedError("the table was deleted"))
    assert assignments.closed is None
    assert assignments.is_any_fenced
