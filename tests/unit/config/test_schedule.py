"""When work is due that comes again and again."""

from datetime import UTC, datetime

import pytest

from app.config.parsers import schedule
from tests.support.environment import ENOUGH, load

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
def test_it_is_next_due_at_the_same_moments_for_every_process(text: str, due: datetime) -> None:
    found = schedule(text)
    assert found.next(NOON) == due
    assert found.next(due) == due + found.period


@pytest.mark.parametrize("text", ["24:00", "3", "0h", "-6h", "daily", "03:15:00", "6 h"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be a time of day in UTC as 03:15"):
        schedule(text)


def test_it_is_shown_as_it_was_set() -> None:
    assert load(ENOUGH, COMPACT="3:15").summary()["COMPACT"] == '"3:15"'
