"""The last lines of the log that a person should know of."""

import logging

from app.monitoring.recent_warnings import RecentWarnings, Warned


def record(message: str, level: int = logging.WARNING, *arguments: object) -> logging.LogRecord:
    made = logging.LogRecord("app.x", level, "x.py", 1, message, arguments, None)
    made.created = 1_700_000_000.0
    return made


def test_warnings_and_errors_are_remembered_and_nothing_below() -> None:
    logger = logging.Logger("alone", logging.DEBUG)
    recent = RecentWarnings()
    logger.addHandler(recent)
    logger.info("fine")
    logger.warning("odd: %d", 7)
    logger.error("bad")
    assert [(each.level, each.message) for each in recent.newest_first()] == [("ERROR", "bad"), ("WARNING", "odd: 7")]


def test_the_last_ten_are_kept() -> None:
    recent = RecentWarnings()
    for number in range(25):
        recent.emit(record("number %d", logging.WARNING, number))
    assert [each.message for each in recent.newest_first()] == [f"number {number}" for number in range(24, 14, -1)]


def test_a_long_message_is_cut() -> None:
    recent = RecentWarnings()
    recent.emit(record("x" * 10_000))
    assert recent.newest_first() == [Warned(1_700_000_000.0, "WARNING", "x" * 500 + "…")]
