"""Files that were rolled back and appear late, at a member that has nothing to consume."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.journal.rolled_back import Sweeper
from tests.unit.journal.claims_bench import AWAY, Bench, claim_of
from tests.unit.journal.journal_bench import BODY, key_of
from tests.unit.pipeline.pipeline_line import wait_until


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.stop()


@pytest.fixture
def sweeper(bench: Bench) -> Iterator[Sweeper]:
    sweeper = Sweeper(bench.ownership.delete_rolled_back, seconds=0.01)
    yield sweeper
    sweeper.stop()


def test_an_upload_of_a_dead_member_that_lands_late_is_deleted_while_nothing_is_consumed(
    bench: Bench, sweeper: Sweeper
) -> None:
    bench.left_behind(41, pending=["1", "2"], stored=["1"])
    claim_of(bench.claims())
    late = bench.lake / key_of("2")
    sweeper.start()
    late.write_bytes(BODY)
    wait_until(lambda: not late.exists())


def test_a_sweep_that_fails_is_tried_again(bench: Bench, sweeper: Sweeper) -> None:
    bench.left_behind(41, pending=["1", "2"], stored=["1"])
    claim_of(bench.claims())
    bench.store.deleted.clear()
    tried = threading.Event()

    def refuse(_: str) -> Exception | None:
        if tried.is_set():
            return None
        tried.set()
        return AWAY

    bench.store.refuse_delete = refuse  # type: ignore[assignment]
    sweeper.start()
    wait_until(lambda: {key_of("1"), key_of("2")} <= set(bench.store.deleted))


def test_what_is_another_member_s_by_now_is_left_to_it(bench: Bench, sweeper: Sweeper) -> None:
    bench.left_behind(41, pending=["1", "2"], stored=["1"])
    claim = claim_of(bench.claims())
    bench.ended.add(claim.token)
    bench.store.deleted.clear()
    sweeper.sweep()
    assert bench.store.deleted == []
