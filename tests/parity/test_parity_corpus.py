"""The same records through the dependency's sink and through ours: they differ as documented, and in nothing else."""

import re
from pathlib import Path

import pytest

from app.spark.writer import SparkWriter
from tests.parity.case import Case
from tests.parity.corpus import CORPUS
from tests.parity.differences import ALWAYS, TITLES
from tests.parity.running import findings_of, titles

ARCHITECTURE = Path(__file__).parents[2] / "docs" / "architecture.md"


@pytest.mark.parametrize("case", CORPUS, ids=lambda case: case.name)
def test_both_sinks_write_the_same(case: Case, spark: SparkWriter) -> None:
    assert titles(findings_of(case, spark)) - ALWAYS == case.shows


def test_each_difference_is_shown_by_a_case() -> None:
    assert {title for case in CORPUS for title in case.shows} | ALWAYS == set(TITLES)


def test_what_differs_always_is_seen_in_the_plainest_case(spark: SparkWriter) -> None:
    assert titles(findings_of(Case("plain", [[{"v": 1}]]), spark)) == ALWAYS


def test_the_documentation_lists_the_same_differences() -> None:
    _, _, section = ARCHITECTURE.read_text().partition("## Other than the dependency's sink")
    rows = re.findall(
        r"^\| (.+?) \| .+ \| .+ \|$", section.partition("\nThe comparison cannot bring these about")[0], re.MULTILINE
    )
    assert tuple(rows) == TITLES
