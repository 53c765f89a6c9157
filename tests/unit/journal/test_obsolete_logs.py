"""Logs that no claim names any more are deleted, and no others."""

import os
import time
from pathlib import Path

import pytest

from app.journal.journal import ObsoleteLogs
from tests.support.world import OURS, P0, P1, THEIRS, THIRD, World

HOUR = 3600.0
DAY = 24 * HOUR


def delete_after(world: World, seconds: float, *, age: float = 25 * HOUR) -> set[str]:
    """Look once after this time, where all logs were last written that long before the look; the owners left."""
    started = time.time()
    now = [started]
    logs = ObsoleteLogs(world.journal, now=lambda: now[0])
    now[0] += seconds
    for key in world.logs():
        os.utime(world.lake / key, (now[0] - age, now[0] - age))
    logs.delete()
    return {Path(key).stem for key in world.logs()}


def test_a_closed_log_that_no_claim_names_is_deleted_after_a_day(world: World) -> None:
    world.begun()
    world.claimed()
    assert delete_after(world, HOUR, age=23 * HOUR) == {OURS, THEIRS}
    assert delete_after(world, HOUR, age=25 * HOUR) == {THEIRS}


def test_nothing_is_looked_for_in_the_first_hour(world: World) -> None:
    world.begun()
    world.claimed()
    asked: list[str] = []
    world.store.on_small = lambda what, _: asked.append(what)
    assert delete_after(world, HOUR - 1) == {OURS, THEIRS}
    assert asked == []


def test_a_log_that_one_of_its_partitions_still_needs_stays(world: World) -> None:
    world.begun(tps=[P0, P1], end=9)
    world.claimed(THEIRS, [P0])
    assert delete_after(world, HOUR) == {OURS, THEIRS}
    world.claimed(THIRD, [P1])
    assert world.end(THIRD, P1) == 9
    assert delete_after(world, HOUR) == {THEIRS, THIRD}


@pytest.mark.parametrize("body", [b"", b'{"version":2}'])
def test_a_log_that_cannot_be_understood_stays_and_keeps_no_other(world: World, body: bytes) -> None:
    damaged = "00000000"  # the first in a listing
    world.begun()
    world.claimed()
    (world.lake / world.log_key(damaged)).write_bytes(body)
    assert delete_after(world, HOUR) == {damaged, THEIRS}


def test_a_log_that_is_not_closed_stays(world: World) -> None:
    """Its owner may be about to point the claims to it."""
    world.begun()
    world.delete(world.claim_key())
    assert delete_after(world, HOUR) == {OURS}
