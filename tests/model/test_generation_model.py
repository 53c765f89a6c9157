"""The journal's protocol is right in every order of its steps, within bounds, and each of its rules is needed.

A longer run of random walks: ``MODEL_WALKS=100000 pytest -s tests/model -k random``.
"""

import os

import pytest

from tests.model.generation_model import Bounds, Model, Rule, search, walk

WALKS = int(os.environ.get("MODEL_WALKS", "100"))  # of each seed
MOST_STATES = 2_000_000
FEWER_STATES = 50_000

QUICK = (
    Bounds(partitions=1, rebalances=1, crashes=1, late_closes=1),
    Bounds(partitions=1, rebalances=1, lost_answers=1),
    Bounds(partitions=2, rebalances=0, crashes=1),  # files are shared by two partitions
    Bounds(partitions=2, rebalances=0, lost_answers=1),
    Bounds(partitions=1, offsets=2, rebalances=0, crashes=1, expiries=1),
)
THOROUGH = (
    Bounds(partitions=2, rebalances=1),
    Bounds(partitions=2, rebalances=0, crashes=1, lost_answers=1),
    Bounds(partitions=1, rebalances=1, crashes=1, lost_answers=1, late_closes=1),
)
MANY = Bounds(partitions=3, offsets=3, rebalances=3, crashes=2, lost_answers=2, late_closes=2, expiries=2)
# The fewest that show what each rule prevents: two claimers at once, or one of them and a death.
TWO_CLAIMERS = Bounds(partitions=1, rebalances=2)
ONE_CLAIMER = Bounds(partitions=1, rebalances=1, crashes=1)
OF_TWO_CLAIMERS = (Rule.KEEP_BEFORE_REGISTER, Rule.ROLL_BACK_BEFORE_FILL)
ONE_EXPIRY = Bounds(partitions=1, offsets=3, rebalances=0, crashes=1, expiries=1)  # of three rows in two files


@pytest.mark.parametrize(
    "bounds",
    [*QUICK, *(pytest.param(each, marks=pytest.mark.slow) for each in THOROUGH)],
    ids=str,
)
def test_every_row_is_there_once_in_every_order_of_the_steps(bounds: Bounds) -> None:
    found = search(Model(bounds), MOST_STATES)
    print(f"{found.states:,} states, {found.final:,} final")
    assert not found.violation
    assert found.is_complete
    assert found.final


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_row_is_there_once_after_many_steps_at_random(seed: int) -> None:
    found = walk(Model(MANY), WALKS, seed)
    print(f"{found.states:,} steps, {found.final:,} walks")
    assert not found.violation
    assert found.final == WALKS


@pytest.mark.parametrize("rule", Rule)
def test_without_a_rule_rows_are_lost_or_doubled(rule: Rule) -> None:
    bounds = ONE_EXPIRY if rule is Rule.SMALLER_LOSS else TWO_CLAIMERS if rule in OF_TWO_CLAIMERS else ONE_CLAIMER
    found = search(Model(bounds, without=rule), FEWER_STATES)
    print(f"{rule.value}\n{found.violation}")
    assert found.violation


@pytest.mark.parametrize("bounds", [ONE_CLAIMER, pytest.param(TWO_CLAIMERS, marks=pytest.mark.slow)], ids=str)
def test_with_all_rules_nothing_is_wrong_within_the_bounds_that_show_what_they_prevent(bounds: Bounds) -> None:
    found = search(Model(bounds), MOST_STATES)
    assert found.is_complete
    assert not found.violation
