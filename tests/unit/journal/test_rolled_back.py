"""Placeholders are deleted by a member that has nothing to consume too."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.journal.rolled_back import Sweeper
from tests.support.waiting import wait_until
from tests.unit.journal.claims_bench import AWAY, Bench, claim_of
from tests.unit.journal.journal_bench import key_of

HOUR = 3600


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.stop()


@pytest.fixture
def sweeper(bench: Bench) -> Iterator[Sweeper]:
    sweeper = Sweeper(bench.ownership.sweep, seconds=0.01)
    yield sweeper
    sweeper.stop()


def test_a_sweep_that_fails_is_tried_again(bench: Bench, sweeper: Sweeper) -> None:
    bench.left_behind(41, pending=["1", "2"], stored=["1"])
    claim_of(bench.claims())
    tried = threading.Event()

    def refuse(_: str) -> Exception | None:
        if tried.is_set():
            return None
        tried.set()
        return AWAY

    bench.store.refuse_removal = refuse  # type: ignore[assignment]
    bench.journals.epoch.advance(HOUR)
    sweeper.start()
    wait_until(lambda: {key_of("1"), key_of("2")} <= set(bench.store.deleted), "both placeholders are deleted")


def test_what_is_another_member_s_by_now_is_left_to_it(bench: Bench, sweeper: Sweeper) -> None:
    bench.left_behind(41, pending=["1", "2"], stored=["1"])
    claim = claim_of(bench.claims())
    bench.ended.add(claim.token)
    bench.journals.epoch.advance(HOUR)
    sweeper.sweep()
    assert bench.store.deleted == []


def test_without_conditional_writes_a_late_upload_is_deleted_at_the_stop(bench: Bench, sweeper: Sweeper) -> None:
    """The member has left the group by then."""
    bench.store.refuses_overwrites = False
    bench.left_behind(41, pending=["1", "2"], stored=["1"])
    claim = claim_of(bench.claims())
    sweeper.start()
    bench.ended.add(claim.token)
    bench.journals.store_files("2")
    sweeper.stop()
    assert not bench.journals.has("2")
