"""The protocol of compaction holds in every order of its steps, and none of its rules can be left out."""

import pytest

from tests.model.compaction_model import Model, Rule

OF_THREE = {Rule.CREATE_ONLY, Rule.EMPTY_MERGED}  # one stalls, one merges the same, one merges that again


@pytest.mark.parametrize("compactors", [1, 2])
def test_no_order_of_the_steps_loses_or_doubles_a_row(compactors: int) -> None:
    assert Model(compactors, deaths=1).violation() is None


@pytest.mark.slow
def test_nor_do_three_compactors_of_which_two_die() -> None:
    assert Model(compactors=3, deaths=2).violation() is None


@pytest.mark.parametrize("rule", [rule for rule in Rule if rule not in OF_THREE])
def test_each_rule_is_needed(rule: Rule) -> None:
    assert Model(compactors=2, deaths=1, without=rule).violation()


@pytest.mark.slow
@pytest.mark.parametrize("rule", sorted(OF_THREE, key=str))
def test_some_are_needed_where_merged_files_are_merged_again(rule: Rule) -> None:
    assert Model(compactors=3, deaths=1, without=rule).violation()
