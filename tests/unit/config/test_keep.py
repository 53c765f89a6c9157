"""How long rows are kept: KEEP; and when no maintenance goes with a run."""

import pytest

from tests.support.environment import load, problems


@pytest.mark.parametrize("text", ["400d", "36h", "90m"])
def test_it_is_a_duration(text: str) -> None:
    assert load(HIVE_COLUMNS="year", KEEP=text).summary()["KEEP"] == f'"{text}"'


@pytest.mark.parametrize("text", ["0d", "400", "400 d", "-1d", "1y", "always"])
def test_anything_else_is_refused(text: str) -> None:
    [problem] = problems(HIVE_COLUMNS="year", KEEP=text)
    assert "must be a duration as 400d" in problem


def test_it_needs_folders_of_a_time_and_an_iceberg_table_says_itself_what_it_has() -> None:
    for columns in ("", "place", "~year", "month,day"):
        [problem] = problems(HIVE_COLUMNS=columns, KEEP="400d")
        assert problem.startswith("KEEP")
        assert "needs folders of time: year" in problem
    load(KEEP="400d", CATALOG_TYPE="iceberg", CATALOG_URL="http://catalog")


def test_confirming_nothing_is_a_mistake() -> None:
    [problem] = problems(KEEP_CONFIRMED="400d")
    assert problem.startswith("KEEP_CONFIRMED")


@pytest.mark.parametrize(
    ("variables", "command"), [({"KEEP": "400d"}, "erase --older-than 400d"), ({"COMPACT": "03:15"}, "compact")]
)
@pytest.mark.parametrize("until", ["now", "-1h", "2026-11-01T00:00:00Z"])
def test_a_run_that_ends_leaves_no_time_for_maintenance(variables: dict[str, str], command: str, until: str) -> None:
    [problem] = problems(HIVE_COLUMNS="year", UNTIL=until, **variables)
    assert problem.startswith(next(iter(variables)))
    assert f"Run {command} as a job of its own" in problem
