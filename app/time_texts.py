"""Parses times in text. Columns, settings and options have the same grammar, which docs/guarantees.md describes.

Python's own parser accepts any character between date and time, and digits only as a date. Arrow parses a part of the
grammar, and nothing else.
"""

import re
from datetime import UTC, datetime, timedelta

_HOUR, _SIXTY = r"(?:[01]\d|2[0-3])", r"[0-5]\d"
_CLOCK = rf"{_HOUR}(?::{_SIXTY}(?::{_SIXTY}(?:[.,]\d{{1,6}}(?P<finer>\d{{0,24}}))?)?)?"
_BASIC_CLOCK = rf"{_HOUR}(?:{_SIXTY}(?:{_SIXTY}(?:[.,]\d{{1,6}}(?P<finest>\d{{0,24}}))?)?)?"
_ZONE = rf"(?:[Zz]|[+-]{_HOUR}(?::?{_SIXTY})?)?"
_TIME = rf"(?:\d{{4}}-\d\d-\d\d(?:[Tt ]{_CLOCK}{_ZONE})?|\d{{8}}[Tt]{_BASIC_CLOCK}{_ZONE})"
TIME_OR_NUMBER = rf"^(?:{_TIME}|\d{{1,30}})$"  # for Arrow; nanoseconds of the year 9999 have 21 digits
_ONE_TIME = re.compile(_TIME, re.ASCII)
_DURATION = re.compile(r"(\d{1,9})([mhd])", re.ASCII)
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


def time(text: str) -> datetime:
    """Returns the moment of a date, or of a date and time. A text without a zone is in UTC.

    argparse shows the name of this function.
    """
    moment = moment_of(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def duration(text: str) -> timedelta:
    """Parses a number with m, h or d for minutes, hours or days."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def moment_of(text: str, *, exactly: bool = False) -> datetime:
    """Returns the moment of a date, or of a date and time. A text without a zone returns a moment without a zone.

    Raises:
        ValueError: the text is not a time, or has digits below microseconds although ``exactly`` is set.
    """
    match = _ONE_TIME.fullmatch(text)
    if match is None or (exactly and (match["finer"] or match["finest"] or "").strip("0")):
        raise ValueError(text)
    return datetime.fromisoformat(text.upper())


def time_or_number(text: str) -> datetime | int | None:
    """Parses a text of the form ``TIME_OR_NUMBER``; ``None`` for a date that does not exist, like 2023-02-30."""
    try:
        return int(text) if text.isdecimal() else datetime.fromisoformat(text.upper())
    except ValueError:
        return None
