"""Reads times from text: one grammar for columns, that of docs/guarantees.md, for settings and for options.

Python alone takes any character between date and time, and digits alone for a date. Arrow reads a part of the grammar,
and nothing else.
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
    """Returns the moment of a date, or of a date and time; in UTC where the text names no zone.

    argparse shows the name of this function.
    """
    moment = moment_of(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def duration(text: str) -> timedelta:
    """Reads a number with m, h or d for minutes, hours or days."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def moment_of(text: str, *, exactly: bool = False) -> datetime:
    """Returns the moment of a date, or of a date and time; without a zone where the text names none.

    Raises:
        ValueError: it is no time, or it is to be read ``exactly`` and has digits below microseconds.
    """
    found = _ONE_TIME.fullmatch(text)
    if found is None or (exactly and (found["finer"] or found["finest"] or "").strip("0")):
        raise ValueError(text)
    return datetime.fromisoformat(text.upper())


def time_or_number(text: str) -> datetime | int | None:
    """Reads a text of the form ``TIME_OR_NUMBER``; ``None`` for a day that the calendar lacks."""
    try:
        return int(text) if text.isdecimal() else datetime.fromisoformat(text.upper())
    except ValueError:
        return None
