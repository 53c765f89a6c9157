"""Logs that no claim names any more are deleted, and no others."""

import os
import time
from pathlib import Path

import pytest

from app.journal.journal import ObsoleteLogs
from tests.unit.journal.journal_bench import OURS, P0, P1, THEIRS, THIRD, Bench

HOUR = 3600.0
DAY = 24 * HOUR


def delete_after(bench: Bench, seconds: float, *, age: float = 25 * HOUR) -> set[str]:
    """Look once after this time, where all logs were last written that long before the look; the owners left."""
    started = time.time()
    now = [started]
    logs = ObsoleteLogs(bench.journal, now=lambda: now[0])
    now[0] += seconds
    for key in bench.logs():
        os.utime(bench.lake / key, (now[0] - age, now[0] - age))
    logs.delete()
    return {Path(key).stem for key in bench.logs()}


def test_a_closed_log_that_no_claim_names_is_deleted_after_a_day(bench: Bench) -> None:
    bench.begun()
    bench.claimed()
    assert delete_after(bench, HOUR, age=23 * HOUR) == {OURS, THEIRS}
    assert delete_after(bench, HOUR, age=25 * HOUR) == {THEIRS}


def test_nothing_is_looked_for_in_the_first_hour(bench: Bench) -> None:
    bench.begun()
    bench.claimed()
    asked: list[str] = []
    bench.store.on_small = lambda what, _: asked.append(what)
    assert delete_after(bench, HOUR - 1) == {OURS, THEIRS}
    assert asked == []


def test_a_log_that_one_of_its_partitions_still_needs_stays(bench: Bench) -> None:
    bench.begun(tps=[P0, P1], end=9)
    bench.claimed(THEIRS, [P0])
    assert delete_after(bench, HOUR) == {OURS, THEIRS}
    bench.claimed(THIRD, [P1])
    assert bench.end(THIRD, P1) == 9
    assert delete_after(bench, HOUR) == {THEIRS, THIRD}


@pytest.mark.parametrize("body", [b"", b'{"version":2}'])
def test_a_log_that_cannot_be_understood_stays_and_keeps_no_other(bench: Bench, body: bytes) -> None:
    damaged = "00000000"  # the first in a listing
    bench.begun()
    bench.claimed()
    (bench.lake / bench.log_key(damaged)).write_bytes(body)
    assert delete_after(bench, HOUR) == {damaged, THEIRS}


def test_a_log_that_is_not_closed_stays(bench: Bench) -> None:
    """Its owner may be about to point the claims to it."""
    bench.begun()
    bench.delete(bench.claim_key())
    assert delete_after(bench, HOUR) == {OURS}
