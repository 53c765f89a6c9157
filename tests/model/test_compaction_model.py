"""The protocol of compaction holds in every order of its steps, and none of its rules can be left out."""

import pytest

from tests.model.compaction_model import Model, Rule


@pytest.mark.parametrize("by_hand", [False, True])
@pytest.mark.parametrize("compactors", [1, 2])
def test_no_order_of_the_steps_loses_or_doubles_a_row(compactors: int, by_hand: bool) -> None:
    assert Model(compactors, deaths=1, by_hand=by_hand).violation() is None


@pytest.mark.parametrize("by_hand", [False, True])
def test_nor_does_an_erasure_of_whole_files(by_hand: bool) -> None:
    assert Model(compactors=2, deaths=1, by_hand=by_hand, erases=True).violation() is None


@pytest.mark.parametrize("by_hand", [False, True])
def test_nor_does_one_that_keeps_the_newest_row_of_each_key(by_hand: bool) -> None:
    assert Model(compactors=2, deaths=1, by_hand=by_hand, newest=True).violation() is None


@pytest.mark.night
@pytest.mark.parametrize("by_hand", [False, True])
def test_nor_do_three_compactors_of_which_one_dies(by_hand: bool) -> None:
    assert Model(compactors=3, deaths=1, by_hand=by_hand).violation() is None


@pytest.mark.parametrize("rule", Rule)
def test_each_rule_is_needed(rule: Rule) -> None:
    assert Model(compactors=2, deaths=1, by_hand=True, newest=rule is Rule.DROP_ONE_FILE, without=rule).violation()
