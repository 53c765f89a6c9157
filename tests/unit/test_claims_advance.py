"""What claims do from time to time between the batches: move the end past filtered rows, and sweep."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.unit.claims_bench import AWAY, FORMER, P0, A, Bench, claim_of, wait_idle
from tests.unit.journal_bench import key_of
from tests.unit.pipeline_line import Gate, wait_until


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.stop()


class Time:
    """The time that the claims see."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000.0
        monkeypatch.setattr("app.claims.time", SimpleNamespace(monotonic=lambda: self.now))


@pytest.fixture
def seen_time(monkeypatch: pytest.MonkeyPatch) -> Time:
    return Time(monkeypatch)


def test_the_end_is_moved_past_rows_that_were_filtered_out(bench: Bench, seen_time: Time) -> None:
    claims = bench.claims(reset="earliest")
    claim_of(claims)
    seen_time.now += 60
    claims.advance({A: 30})
    wait_until(lambda: bench.stored().end == 30)
    assert bench.stored().state == "done"


def test_the_end_is_moved_at_most_once_a_minute(bench: Bench, seen_time: Time) -> None:
    claims = bench.claims(reset="earliest")
    claim_of(claims)
    ends = []
    for second in range(180):
        seen_time.now += 1
        claims.advance({A: second})
        wait_idle(claims)
        ends.append(bench.stored().end)
    assert sorted(set(ends)) == [-1, 59, 119, 179]


def test_an_outage_while_the_end_is_moved_holds_up_nothing_and_is_tried_again(bench: Bench, seen_time: Time) -> None:
    claims = bench.claims(reset="earliest")
    claim_of(claims)
    bench.store.refuse_small = lambda _: AWAY
    seen_time.now += 60
    claims.advance({A: 30})
    wait_idle(claims)
    assert claims.finished() == []
    bench.store.refuse_small = lambda _: None
    seen_time.now += 60
    claims.advance({A: 31})
    wait_until(lambda: bench.stored().end == 31)


def test_moving_the_end_does_not_wait_for_the_store(bench: Bench, seen_time: Time) -> None:
    claims = bench.claims(reset="earliest")
    claim_of(claims)
    gate = Gate()
    bench.store.on_small = gate
    seen_time.now += 60
    claims.advance({A: 30})
    gate.wait_reached()
    assert bench.stored().end == -1
    gate.open()
    wait_until(lambda: bench.stored().end == 30)


def test_being_fenced_while_the_end_is_moved_is_told(bench: Bench, seen_time: Time) -> None:
    claims = bench.claims(reset="earliest")
    claim_of(claims)
    bench.journal(P0, FORMER).claim(lambda: True)
    seen_time.now += 60
    claims.advance({A: 30})
    wait_until(lambda: bench.told == [A])


def test_at_least_once_has_no_end_to_move(bench: Bench, seen_time: Time) -> None:
    claims = bench.claims(exactly_once=False)
    claim_of(claims)
    seen_time.now += 6_000
    claims.advance({A: 30})
    wait_idle(claims)
    assert bench.entry() is None


def test_files_undone_that_appear_late_are_swept_away_now_and_then(bench: Bench, seen_time: Time) -> None:
    bench.left_behind(41, pending=["1", "2"], stored=["1"])
    claims = bench.claims()
    claim_of(claims)
    bench.store.deleted.clear()
    swept = []
    for minute in range(1, 21):
        seen_time.now += 60
        claims.advance({A: 41 + minute})
        wait_idle(claims)
        if bench.store.deleted:
            swept.append(minute)
            assert bench.store.deleted == [key_of("1"), key_of("2")]
            bench.store.deleted.clear()
    assert swept == [10, 20]


def test_a_sweep_that_fails_is_tried_again_with_the_next_advance(bench: Bench, seen_time: Time) -> None:
    bench.left_behind(41, pending=["1", "2"], stored=["1"])
    claims = bench.claims()
    claim_of(claims)
    bench.store.deleted.clear()
    bench.store.refuse_delete = lambda _: AWAY
    seen_time.now += 600
    claims.advance({A: 50})
    wait_idle(claims)
    bench.store.refuse_delete = lambda _: None
    seen_time.now += 60
    claims.advance({A: 51})
    wait_idle(claims)
    assert bench.store.deleted == [key_of("1"), key_of("2")]
