"""COMPACT and KEEP: when maintenance is due, how long rows are kept, and when no maintenance goes with a run."""

from datetime import UTC, datetime

import pytest

from app.config.parsers import schedule
from tests.support.environment import load, problems

NOON = datetime(2026, 11, 26, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("03:15", datetime(2026, 11, 27, 3, 15, tzinfo=UTC)),
        ("12:00", datetime(2026, 11, 27, 12, 0, tzinfo=UTC)),
        ("6h", datetime(2026, 11, 26, 18, 0, tzinfo=UTC)),
        ("1d", datetime(2026, 11, 27, 0, 0, tzinfo=UTC)),
    ],
)
def test_compaction_is_next_due_at_the_same_moments_for_every_process(text: str, due: datetime) -> None:
    found = schedule(text)
    assert found.next(NOON) == due
    assert found.next(due) == due + found.period


@pytest.mark.parametrize("text", ["24:00", "3", "0h", "-6h", "daily", "03:15:00", "6 h"])
def test_other_schedules_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be a time of day in UTC such as 03:15"):
        schedule(text)


def test_the_schedule_is_shown_as_it_was_set() -> None:
    assert load(COMPACT="3:15").summary()["COMPACT"] == '"3:15"'


@pytest.mark.parametrize("text", ["400d", "36h", "90m"])
def test_rows_are_kept_for_a_duration(text: str) -> None:
    assert load(HIVE_COLUMNS="year", KEEP=text).summary()["KEEP"] == f'"{text}"'


@pytest.mark.parametrize("text", ["0d", "400", "400 d", "-1d", "1y", "always"])
def test_other_durations_are_refused(text: str) -> None:
    [problem] = problems(HIVE_COLUMNS="year", KEEP=text)
    assert "must be a duration such as 400d" in problem


def test_keeping_needs_folders_of_a_time_and_an_iceberg_table_says_itself_what_it_has() -> None:
    for columns in ("", "place", "~year", "month,day"):
        [problem] = problems(HIVE_COLUMNS=columns, KEEP="400d")
        assert problem.startswith("KEEP")
        assert "needs folders of time: year" in problem
    load(KEEP="400d", CATALOG_TYPE="iceberg", CATALOG_URL="http://catalog")


@pytest.mark.parametrize(
    ("variables", "command"), [({"KEEP": "400d"}, "erase --older-than 400d"), ({"COMPACT": "03:15"}, "compact")]
)
@pytest.mark.parametrize("until", ["now", "-1h", "2026-11-01T00:00:00Z"])
def test_a_run_that_ends_leaves_no_time_for_maintenance(variables: dict[str, str], command: str, until: str) -> None:
    [problem] = problems(HIVE_COLUMNS="year", UNTIL=until, **variables)
    assert problem.startswith(next(iter(variables)))
    assert f"Run {command} as a separate job" in problem
