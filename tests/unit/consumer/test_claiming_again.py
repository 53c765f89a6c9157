"""The consumer's loop when another member has closed the log of its generation, and Kafka has revoked nothing."""

from pathlib import Path
from typing import Any

import pytest
from quixstreams.sinks import BatchingSink

from app.consumer.application import LakeApplication
from app.errors import RetryableError
from app.journal.document import FencedError, LogClosedError
from app.journal.start_offset import Start
from tests.fakes.clock import Clock
from tests.unit.consumer.application_bench import PARTITIONS, TOPIC, TP, Bench, record

CLOSED = LogClosedError("s3://lake/t/_journal/g/generations.d/a.json was closed by another member")
GONE = FencedError("s3://lake/t/_journal/g/generations.d/a.json is gone: the table was deleted")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, clock: Clock) -> Bench:
    bench = Bench(monkeypatch, tmp_path, clock=clock)
    bench.assign()
    bench.turn()
    return bench


def token(bench: Bench) -> str:
    found = bench.assignments.token(TP)
    assert found is not None
    return found


def close(bench: Bench, error: FencedError = CLOSED) -> str:
    """Fence the present generation; returns its token."""
    former = token(bench)
    bench.assignments.fence(former, error)
    return former


def test_the_partitions_are_claimed_as_a_new_generation(bench: Bench) -> None:
    former = close(bench)
    bench.turn()
    assert not bench.assignments.is_current(former)
    assert len({assignment.token for assignment in bench.assignments.by_tp.values()}) == 1
    assert bench.claims.closed == [None, str(CLOSED)]
    assert not bench.assignments.is_any_fenced


def test_what_was_read_is_dropped_and_read_again_from_where_the_claim_says(bench: Bench) -> None:
    bench.turn(record(0), record(1))
    close(bench)
    bench.claims.starts = {TP: Start(1)}
    bench.calls.clear()
    bench.turn(record(1))
    assert bench.calls[0] == "pause 2"
    assert "seek 0 to 1" in bench.calls
    bench.checkpoint()
    bench.pipeline.deliver_all()
    bench.turn()
    assert bench.written == [1]
    assert bench.commits[-1] == {TP: 2}


def test_nothing_is_committed_before_the_claim_is_through(bench: Bench) -> None:
    bench.turn(record(0))
    close(bench)
    bench.claims.held_back = set(bench.assignments.tps)
    bench.turn()
    bench.commits.clear()
    bench.checkpoint()
    assert bench.commits == []
    assert bench.calls[-1] == "pause 2"


def test_a_pause_that_the_fence_has_brought_ends_with_it(bench: Bench) -> None:
    consumer = bench.application._consumer
    consumer._backpressurred_tps.update(PARTITIONS)
    close(bench)
    bench.calls.clear()
    bench.turn()
    assert not consumer.backpressured_tps
    assert "resume 2" in bench.calls


def test_messages_that_the_framework_has_fetched_ahead_are_dropped(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does so where a transform() aligns topics by time; they would come before those that are read again."""
    cleared = []
    monkeypatch.setattr(
        bench.application._consumer._buffer, "clear", lambda topic, partition: cleared.append((topic, partition))
    )
    close(bench)
    bench.turn()
    assert cleared == [(TOPIC, 0), (TOPIC, 1)]


def test_other_sinks_drop_what_comes_again(bench: Bench) -> None:
    class Sink(BatchingSink):
        paused = 0

        def on_paused(self) -> None:
            self.paused += 1

        def write(self, batch: Any) -> None:
            """Nothing comes here."""

    sink = Sink()
    bench.checkpoints.sink_manager.register(sink)
    close(bench)
    bench.turn()
    assert sink.paused == 1


@pytest.mark.parametrize("how", ["gone", "state"])
def test_a_deleted_table_and_state_end_the_process_as_ever(
    bench: Bench, clock: Clock, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    if how == "state":
        monkeypatch.setattr(LakeApplication, "keeps_state", True)
    former = close(bench, GONE if how == "gone" else CLOSED)
    bench.turn()
    assert token(bench) == former
    clock.advance(20.1)
    with pytest.raises(RetryableError, match="was deleted" if how == "gone" else "was closed by another member"):
        bench.turn()


def test_the_fourth_time_in_ten_minutes_ends_the_process(bench: Bench, clock: Clock) -> None:
    for _ in range(3):
        former = close(bench)
        bench.turn()
        assert token(bench) != former
        clock.advance(190.0)
    former = close(bench)
    bench.turn()
    assert token(bench) == former
    clock.advance(20.1)
    with pytest.raises(RetryableError, match="was closed by another member") as raised:
        bench.turn()
    assert raised.value.exit_code == 75


def test_four_times_in_more_than_ten_minutes_do_not(bench: Bench, clock: Clock) -> None:
    for _ in range(8):
        former = close(bench)
        bench.turn()
        assert token(bench) != former
        clock.advance(201.0)
