"""What claims do from time to time between the batches: move the end past filtered rows."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.clock import Clock
from tests.unit.journal.claims_bench import AWAY, A, Bench, claim_of, wait_idle
from tests.unit.journal.journal_bench import P0
from tests.unit.pipeline.pipeline_line import Gate, wait_until


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def bench(tmp_path: Path, clock: Clock) -> Iterator[Bench]:
    bench = Bench(tmp_path, clock)
    yield bench
    bench.stop()


def test_the_end_is_moved_past_rows_that_were_filtered_out(bench: Bench, clock: Clock) -> None:
    claims = bench.claims(reset="earliest")
    claim_of(claims)
    clock.now += 60
    claims.advance({A: {P0: 30}})
    wait_until(lambda: bench.end() == 30)
    assert bench.stored()[0].state == "done"


def test_the_end_is_moved_at_most_once_a_minute(bench: Bench, clock: Clock) -> None:
    claims = bench.claims(reset="earliest")
    claim_of(claims)
    ends = []
    for second in range(180):
        clock.now += 1
        claims.advance({A: {P0: second}})
        wait_idle(claims)
        ends.append(bench.end())
    assert sorted(set(ends)) == [-1, 59, 119, 179]


def test_an_outage_while_the_end_is_moved_holds_up_nothing_and_is_tried_again(bench: Bench, clock: Clock) -> None:
    claims = bench.claims(reset="earliest")
    claim_of(claims)
    bench.store.refuse_small = lambda _: AWAY
    clock.now += 60
    claims.advance({A: {P0: 30}})
    wait_idle(claims)
    assert claims.finished() == []
    bench.store.refuse_small = lambda _: None
    clock.now += 60
    claims.advance({A: {P0: 31}})
    wait_until(lambda: bench.end() == 31)


def test_moving_the_end_does_not_wait_for_the_store(bench: Bench, clock: Clock) -> None:
    claims = bench.claims(reset="earliest")
    claim_of(claims)
    gate = Gate()
    bench.store.on_small = gate
    clock.now += 60
    claims.advance({A: {P0: 30}})
    gate.wait_reached()
    assert bench.end() == -1
    gate.open()
    wait_until(lambda: bench.end() == 30)


def test_being_fenced_while_the_end_is_moved_is_reported(bench: Bench, clock: Clock) -> None:
    claims = bench.claims(reset="earliest")
    claim_of(claims)
    bench.taken_by_another_member()
    clock.now += 60
    claims.advance({A: {P0: 30}})
    wait_until(lambda: bench.fenced == [A])


def test_at_least_once_has_no_end_to_move(bench: Bench, clock: Clock) -> None:
    claims = bench.claims(exactly_once=False)
    claim_of(claims)
    clock.now += 6_000
    claims.advance({A: {P0: 30}})
    wait_idle(claims)
    assert bench.claim() is None
