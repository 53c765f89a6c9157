"""The journal's protocol is right in every order of its steps, within bounds, and each of its rules is needed.

A longer run of random walks: ``MODEL_WALKS=100000 pytest -s tests/model -k random``.
"""

import os
from dataclasses import replace

import pytest

from tests.model.assignment_model import Bounds, Model, Rule, search, walk

WALKS = int(os.environ.get("MODEL_WALKS", "100"))  # of each kind
MOST_STATES = 2_000_000
FEWER_STATES = 50_000

EXPIRED_TIME = Bounds(partitions=1, offsets=2, rebalances=0, crashes=1, expiries=1, texts=1, times=True)
QUICK = (
    Bounds(partitions=1, rebalances=1, lost_answers=1),
    Bounds(partitions=2, rebalances=0, lost_answers=1),  # files are shared by two partitions
    Bounds(partitions=1, offsets=2, rebalances=1, crashes=1, filtered=(0,), from_committed=True),
    Bounds(partitions=1, offsets=2, rebalances=0, crashes=1, texts=2, from_committed=True),
    Bounds(partitions=1, offsets=2, rebalances=0, crashes=1, texts=1, times=True, turns=1),
    EXPIRED_TIME,
)
THOROUGH = (
    Bounds(partitions=1, rebalances=1, crashes=1, late_closes=1),
    Bounds(partitions=2, rebalances=0, crashes=1),
    Bounds(partitions=1, offsets=2, rebalances=0, crashes=1, expiries=1),
    Bounds(partitions=1, offsets=2, rebalances=1, crashes=1, filtered=(1,)),
    Bounds(partitions=2, rebalances=1),
    Bounds(partitions=2, rebalances=0, crashes=1, lost_answers=1),
    Bounds(partitions=1, rebalances=1, crashes=1, lost_answers=1, late_closes=1),
    Bounds(partitions=2, offsets=2, rebalances=0, crashes=1, filtered=(1,)),
    Bounds(partitions=1, offsets=2, rebalances=1, crashes=1, lost_answers=1, filtered=(1,), from_committed=True),
    Bounds(partitions=1, offsets=2, rebalances=1, crashes=1, texts=2),
    Bounds(partitions=2, rebalances=0, crashes=1, texts=1),
    Bounds(partitions=1, offsets=2, rebalances=0, crashes=1, texts=2, times=True, turns=1),
    Bounds(partitions=1, offsets=2, rebalances=0, crashes=1, texts=2, times=True, turns=1, from_committed=True),
    Bounds(partitions=2, rebalances=0, crashes=1, texts=1, times=True, turns=1),
    Bounds(partitions=1, offsets=2, rebalances=0, crashes=2, expiries=2, texts=1, times=True),
)
MANY = Bounds(partitions=3, offsets=3, rebalances=3, crashes=2, lost_answers=2, late_closes=2, expiries=2)
FILTERED = Bounds(partitions=3, offsets=3, rebalances=3, crashes=2, lost_answers=2, late_closes=2, filtered=(0, 2))
FROM_COMMITTED = Bounds(
    partitions=3, offsets=3, rebalances=3, crashes=2, lost_answers=2, late_closes=2, filtered=(1,), from_committed=True
)
SET_BY_HAND = Bounds(
    partitions=3, offsets=3, rebalances=2, crashes=6, lost_answers=2, late_closes=2, from_committed=True, texts=3
)
TIMES = replace(SET_BY_HAND, times=True, turns=3)
# The fewest that show what each rule prevents: two claimers at once, or one of them and a death.
TWO_CLAIMERS = Bounds(partitions=1, rebalances=2)
ONE_CLAIMER = Bounds(partitions=1, rebalances=1, crashes=1)
BOUNDS = {
    Rule.KEEP_BEFORE_REGISTER: TWO_CLAIMERS,
    Rule.ROLL_BACK_BEFORE_FILL: TWO_CLAIMERS,
    Rule.LOG_BEFORE_COMMIT: Bounds(partitions=1, rebalances=0, filtered=(0,)),
    Rule.DROP_TO_THE_END: Bounds(partitions=1, rebalances=1, from_committed=True),
    Rule.SMALLER_LOSS: Bounds(partitions=1, offsets=3, rebalances=0, crashes=1, expiries=1),  # three rows in two files
    Rule.MARK_COMMITS: Bounds(partitions=1, rebalances=0, crashes=1, texts=1),
    Rule.MARK_BEFORE_WRITING: Bounds(partitions=1, rebalances=0, crashes=1, texts=2),
    Rule.KEEP_TIME: Bounds(partitions=1, rebalances=0, texts=1, times=True),
    Rule.REMEMBER_TEXTS: Bounds(partitions=1, rebalances=1, texts=2, times=True, turns=1),
    Rule.TIME_UNTIL_WRITTEN: Bounds(partitions=1, rebalances=0, crashes=1, texts=1, times=True),
    Rule.TIME_THOUGH_EXPIRED: EXPIRED_TIME,
}


@pytest.mark.parametrize(
    "bounds",
    [*QUICK, *(pytest.param(each, marks=pytest.mark.night) for each in THOROUGH)],
    ids=str,
)
def test_every_row_is_there_once_in_every_order_of_the_steps(bounds: Bounds) -> None:
    found = search(Model(bounds), MOST_STATES)
    print(f"{found.states:,} states, {found.final:,} final")
    assert not found.violation
    assert found.is_complete
    assert found.final


@pytest.mark.parametrize(
    "bounds",
    [
        pytest.param(MANY, id="all"),
        pytest.param(FILTERED, id="filtered", marks=pytest.mark.night),
        pytest.param(FROM_COMMITTED, id="from committed", marks=pytest.mark.night),
        pytest.param(SET_BY_HAND, id="set by hand", marks=pytest.mark.night),
        pytest.param(TIMES, id="times", marks=pytest.mark.night),
    ],
)
def test_every_row_is_there_once_after_many_steps_at_random(bounds: Bounds) -> None:
    found = walk(Model(bounds), WALKS, seed=1)
    print(f"{found.states:,} steps, {found.final:,} walks")
    assert not found.violation
    assert found.final == WALKS


@pytest.mark.parametrize("rule", Rule)
def test_without_a_rule_rows_are_lost_or_doubled(rule: Rule) -> None:
    found = search(Model(BOUNDS.get(rule, ONE_CLAIMER), without=rule), FEWER_STATES)
    print(f"{rule.value}\n{found.violation}")
    assert found.violation


@pytest.mark.parametrize("bounds", [ONE_CLAIMER, pytest.param(TWO_CLAIMERS, marks=pytest.mark.night)], ids=str)
def test_with_all_rules_nothing_is_wrong_within_the_bounds_that_show_what_they_prevent(bounds: Bounds) -> None:
    found = search(Model(bounds), MOST_STATES)
    assert found.is_complete
    assert not found.violation
