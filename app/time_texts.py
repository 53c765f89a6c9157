"""Parses times in texts. docs/guarantees.md describes the grammar, which columns, settings and options share.

Python's own parser is less strict: it accepts any character between date and time, and reads digits as a date. Arrow's
parser accepts only a part of the grammar.
"""

import re
from datetime import UTC, datetime, timedelta

_HOUR, _SIXTY = r"(?:[01]\d|2[0-3])", r"[0-5]\d"
_CLOCK = rf"{_HOUR}(?::{_SIXTY}(?::{_SIXTY}(?:[.,]\d{{1,6}}(?P<finer>\d{{0,24}}))?)?)?"
_BASIC_CLOCK = rf"{_HOUR}(?:{_SIXTY}(?:{_SIXTY}(?:[.,]\d{{1,6}}(?P<finest>\d{{0,24}}))?)?)?"
_ZONE = rf"(?:[Zz]|[+-]{_HOUR}(?::?{_SIXTY})?)?"
_TIME = rf"(?:\d{{4}}-\d\d-\d\d(?:[Tt ]{_CLOCK}{_ZONE})?|\d{{8}}[Tt]{_BASIC_CLOCK}{_ZONE})"
TIME_OR_NUMBER = rf"^(?:{_TIME}|\d{{1,30}})$"  # for Arrow; a time of the year 9999 in nanoseconds has 21 digits
_ONE_TIME = re.compile(_TIME, re.ASCII)
_DURATION = re.compile(r"(\d{1,9})([mhd])", re.ASCII)
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


def time(text: str) -> datetime:
    """Parses a date, or a date with a time. A text without a zone is in UTC.

    argparse shows the name of this function to users.
    """
    moment = moment_of(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def duration(text: str) -> timedelta:
    """Parses a number with a unit: m (minutes), h (hours) or d (days), for example ``90m``."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def moment_of(text: str, *, exactly: bool = False) -> datetime:
    """Parses a date, or a date with a time. If the text has no zone, the result has no zone.

    Raises:
        ValueError: The text is not a time, or ``exactly`` is set and the text has digits below microseconds.
    """
    match = _ONE_TIME.fullmatch(text)
    if match is None or (exactly and (match["finer"] or match["finest"] or "").strip("0")):
        raise ValueError(text)
    return datetime.fromisoformat(text.upper())


def time_or_number(text: str) -> datetime | int | None:
    """Parses a text that matches ``TIME_OR_NUMBER``. Returns ``None`` for a date that does not exist: 2023-02-30."""
    try:
        return int(text) if text.isdecimal() else datetime.fromisoformat(text.upper())
    except ValueError:
        return None
