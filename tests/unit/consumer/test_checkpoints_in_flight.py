"""Offsets are committed batch by batch while the next batches are under way, where no transform() stands between."""

from pathlib import Path

import pytest

from app.errors import FatalError, RetryableError
from app.journal.start_offset import Start
from app.model import TopicPartition
from tests.fakes.clock import Clock
from tests.unit.consumer.application_bench import COORDINATOR_AWAY, TP, Bench, record

AWAY = RetryableError("uploading to the lake", "no route to host")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, clock: Clock) -> Bench:
    bench = Bench(monkeypatch, tmp_path, commits_on_the_way=True, clock=clock)
    bench.pipeline.on_wait = lambda: None
    monkeypatch.setattr(
        bench.application._consumer,
        "trigger_backpressure",
        lambda **pause: bench.calls.append(f"back to {pause['offsets_to_seek']}"),
    )
    bench.assign()
    bench.turn()
    return bench


def due(bench: Bench) -> None:
    """The commit interval is over."""
    bench.checkpoints._due_at = 0.0
    bench.turn()
    bench.turn()


def in_the_lake(bench: Bench, offset: int) -> None:
    """A record of which nothing is committed yet."""
    bench.turn(record(offset))
    due(bench)
    bench.pipeline.deliver_all()


def test_a_checkpoint_begins_a_batch_and_does_not_wait_for_it(bench: Bench) -> None:
    bench.turn(record(0), record(1))
    due(bench)
    bench.turn(record(2))
    assert (bench.written, bench.commits, bench.pipeline.waits) == ([0, 1], [], 0)


def test_offsets_are_committed_as_soon_as_their_batch_is_in_the_lake(bench: Bench) -> None:
    bench.turn(record(0), record(1))
    due(bench)
    bench.turn(record(2))
    bench.pipeline.deliver_all()
    bench.turn()
    assert bench.commits == [{TP: 2}]
    bench.turn()
    assert bench.commits == [{TP: 2}]
    due(bench)
    bench.pipeline.deliver_all()
    bench.turn()
    assert bench.commits == [{TP: 2}, {TP: 3}]


def test_of_several_batches_only_those_in_the_lake_count(bench: Bench) -> None:
    for offset in range(3):
        bench.turn(record(offset))
        due(bench)
    bench.pipeline.delivered = 2
    bench.turn()
    assert bench.commits == [{TP: 2}]


def test_rows_wait_for_a_writer_that_is_busy(bench: Bench) -> None:
    bench.pipeline.is_idle = False
    bench.turn(record(0))
    due(bench)
    assert bench.written == []
    bench.pipeline.is_idle = True
    bench.turn()
    assert bench.written == [0]


def test_offsets_of_records_without_rows_are_committed_too(bench: Bench) -> None:
    bench.transform = lambda _: []
    bench.turn(record(0))
    due(bench)
    assert bench.commits == [], "the log does not have them yet"
    assert bench.pipeline.batches[-1].ends == {TP: 0}
    bench.pipeline.deliver_all()
    bench.turn()
    assert (bench.commits, bench.pipeline.waits) == ([{TP: 1}], 0)


def test_what_is_committed_is_not_committed_again(bench: Bench) -> None:
    in_the_lake(bench, 0)
    bench.turn(None, None)
    due(bench)
    due(bench)
    assert (bench.commits, bench.pipeline.waits) == ([{TP: 1}], 0)


def test_a_commit_that_may_not_have_arrived_is_repeated_after_a_while(bench: Bench, clock: Clock) -> None:
    in_the_lake(bench, 0)
    bench.commit_errors = [COORDINATOR_AWAY]
    bench.turn(None, None)
    assert bench.commits == []
    clock.advance(61)
    bench.turn(None, None)
    assert bench.commits == [{TP: 1}]


def test_a_destination_that_is_away_is_found_out_at_the_checkpoint(bench: Bench) -> None:
    bench.turn(record(0))
    due(bench)
    bench.pipeline.deliver_all()
    bench.turn(record(1), record(2))
    bench.pipeline.obstacle = AWAY
    bench.checkpoints._due_at = 0.0
    bench.turn()
    assert bench.calls[-1] == "back to {('sensors', 0): 1}"  # where the last commit ended
    assert not bench.sink.last_flush_ok
    bench.pipeline.obstacle = None
    bench.pipeline.deliver_all()
    bench.turn(record(1), record(2), record(3))
    due(bench)
    bench.pipeline.deliver_all()
    bench.turn(None, None)
    assert (bench.written, bench.commits[-1]) == ([0, 1, 2, 3], {TP: 4})
    assert bench.sink.last_flush_ok


def test_what_came_through_during_a_pause_is_not_left_behind(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    paused: set[str] = set()
    monkeypatch.setattr(type(bench.application._consumer), "backpressured_tps", property(lambda _: paused))
    monkeypatch.setattr(
        bench.application._consumer, "trigger_backpressure", lambda **_: paused.add("all partitions"), raising=False
    )
    bench.turn(record(0), record(1))
    bench.pipeline.obstacle = AWAY
    bench.checkpoints._due_at = 0.0
    bench.turn()  # sealed by the flush that gives up
    assert paused
    paused.clear()
    bench.pipeline.obstacle = None
    bench.pipeline.deliver_all()
    bench.turn(record(0), record(1))  # again, and skipped
    due(bench)
    bench.turn(None, None)
    assert (bench.written, bench.commits) == ([0, 1], [{TP: 2}])
    bench.sink.unassign([TP])
    assert not bench.sink.left_rows_behind


def test_a_pause_forgets_of_no_partition_where_it_is_to_go_on(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client may go back by itself in a partition of which nothing has been read yet."""
    other = TopicPartition(TP.topic, 1)
    bench.claims.starts = {other: Start(1_000)}
    bench.assign()
    bench.turn(record(0))
    monkeypatch.setattr(
        type(bench.application._consumer), "backpressured_tps", property(lambda _: {"paused"} if paused else set())
    )
    paused = True
    bench.checkpoints.init_checkpoint()
    paused = False
    bench.turn(record(0, partition=1), record(0))
    due(bench)
    assert "seek 1 to 1000" in bench.calls
    assert [part.offsets.tp for batch in bench.pipeline.batches for part in batch.parts] == [TP]


def test_a_full_buffer_waits_for_room_and_takes_no_more(bench: Bench) -> None:
    bench.turn(record(0))
    bench.pipeline.held_bytes = 20_000_000
    bench.pipeline.is_idle = False
    bench.turn(record(1))
    assert (len(bench.records), bench.commits, bench.pipeline.batches) == (1, [], [])
    bench.pipeline.held_bytes = 0
    bench.pipeline.is_idle = True
    bench.turn()
    due(bench)
    assert bench.written == [0, 1]


def test_a_buffer_that_stays_full_is_flushed(bench: Bench) -> None:
    bench.turn(record(0))
    bench.pipeline.held_bytes = 20_000_000
    bench.pipeline.obstacle = AWAY
    bench.turn()
    assert bench.calls[-1] == "back to {('sensors', 0): 0}"


def test_a_pipeline_that_failed_while_the_buffer_was_full_ends_the_process_at_once(bench: Bench) -> None:
    bench.turn(record(0))
    bench.pipeline.held_bytes = 20_000_000
    bench.pipeline.failure = FatalError("uploading to the lake", "access denied")
    with pytest.raises(FatalError, match="access denied"):
        bench.turn()


def test_records_of_a_batch_in_the_lake_have_no_age_once_it_is_committed(bench: Bench) -> None:
    in_the_lake(bench, 0)
    assert list(bench.assignments.oldest_uncommitted) == [TP]
    bench.turn()
    bench.turn()
    assert bench.commits == [{TP: 1}]
    assert bench.assignments.oldest_uncommitted == {}


def test_a_checkpoint_with_nothing_to_commit_puts_off_the_next_one(bench: Bench, clock: Clock) -> None:
    clock.advance(3_650)
    assert bench.checkpoints.due_in == -50
    bench.turn()
    assert bench.checkpoints.due_in == 3_600
