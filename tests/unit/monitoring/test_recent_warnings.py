"""The last lines of the log that a person should know of."""

import logging

from app.logs import RecentWarnings


def test_the_last_ten_warnings_and_errors_are_remembered_as_far_as_they_are_short() -> None:
    logger = logging.Logger("alone", logging.DEBUG)
    recent = RecentWarnings()
    logger.addHandler(recent)
    logger.info("fine")
    logger.warning("odd: %d", 7)
    logger.error("x" * 10_000)
    long, odd = recent.newest_first()
    assert [(each.level, each.message) for each in (long, odd)] == [("ERROR", "x" * 500 + "…"), ("WARNING", "odd: 7")]
    for number in range(25):
        logger.warning("number %d", number)
    assert [each.message for each in recent.newest_first()] == [f"number {number}" for number in range(24, 14, -1)]
