"""Whole numbers beyond 64 bits keep their digits wherever they go, whichever way their messages are converted."""

from pathlib import Path

import pytest

from app.table.type_names import type_name
from tests.support.both_ways import Table
from tests.unit.convert.conversions import both_ways, staged

TWICE = 2  # the second batch finds the schema of the first
IDS = [2**63, 2**64 - 1, 2**64, 2**64 + 1, -(2**63) - 1, -(2**64), 10**37 + 1]


@both_ways
@pytest.mark.parametrize("others", ["1", "1.5", '"text"', "null"])
def test_in_a_new_column_they_are_rescued_and_do_not_make_it_double(tmp_path: Path, at_once: bool, others: str) -> None:
    texts = [f'{{"x":{number}}}' for number in IDS]
    rows, _, schema = staged(tmp_path, Table(), *texts, f'{{"x":{others}}}', *texts, at_once=at_once, times=TWICE)
    kinds = {"1": "bigint", "1.5": "double", '"text"': "string", "null": None}
    found = schema.columns.get("x")
    assert (found and type_name(found)) == kinds[others]
    rescued = [row["rescued"].get("x") for row in rows]
    assert repr(rescued) == repr([*IDS, None, *IDS])
