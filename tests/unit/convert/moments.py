"""Timestamps as tests see them: hours as text, reasons of refusals, numbers of other libraries, a reader of texts."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from numbers import Integral, Real
from typing import Any

import pytest

from app.bad_records.refusals import BadRowsError
from app.convert.time_folders import time_parts
from app.table.layout import UTC_ZONE

LAST_NANOSECOND = 253_402_300_800 * 10**9 - 1
S = 1_705_320_000  # 2024-01-15T12:00:00Z
NOON = "2024-01-15 12"
EAST = timezone(timedelta(hours=5, minutes=30))


def hours(values: Sequence[Any], zone: str = UTC_ZONE) -> list[str | None]:
    """What the time columns say of each value, as ``2024-01-15 12``."""
    parts = time_parts(values, zone)
    rows = zip(*(parts[name].to_pylist() for name in ("year", "month", "day", "hour")), strict=True)
    return [None if year is None else f"{year}-{month}-{day} {hour}" for year, month, day, hour in rows]


def reasons(values: Sequence[Any]) -> dict[int, str]:
    with pytest.raises(BadRowsError) as caught:
        time_parts(values)
    return {row: reason.whole for row, reason in caught.value.reasons.items()}


_CLOCKS = ("00", "00:00", "00:00:00", "00:00:00.0")
_ZONES = ("", "Z", "z", *(sign + each for sign in "+-" for each in ("00", "0000", "00:00")))
_BASIC_FORMS = {f"00000000{t}{clock.replace(':', '')}{zone}" for t in "Tt" for clock in _CLOCKS for zone in _ZONES}
_FORMS = {"0000-00-00"} | {f"0000-00-00{t}{clock}{zone}" for t in "Tt " for clock in _CLOCKS for zone in _ZONES}


def micros_of(text: str) -> int | None:
    """Microseconds since 1970 of a text, by the forms in docs/guarantees.md and the calendar; ``None``: no time."""
    form = re.sub(r"[.,]0{1,30}", ".0", re.sub("[0-9]", "0", text))
    if form in _BASIC_FORMS:
        clock = re.sub(r"(\d\d)(?=\d\d)", r"\1:", re.split("[.,Zz+-]", text[9:])[0])
        text = f"{text[:4]}-{text[4:6]}-{text[6:8]}T{clock}" + text[9 + len(clock.replace(":", "")) :]
    elif form not in _FORMS:
        return None
    if len(text) == 10:
        text += "T00"
    clock, _, zone = text[11:].rstrip("Zz").replace("-", "+").partition("+")
    hour, minute, second = (*clock.replace(",", ".").split(":"), "0", "0")[:3]
    seconds, _, fraction = second.partition(".")
    east, more = int(zone[:2] or 0), int(zone[-2:] if len(zone) > 2 else 0)
    try:
        moment = datetime(int(text[:4]), int(text[5:7]), int(text[8:10]), int(hour), int(minute), int(seconds))
    except ValueError:
        return None
    if east > 23 or more > 59:
        return None
    offset = timedelta(hours=east, minutes=more) * (-1 if "-" in text[11:] else 1)
    whole = (moment - datetime(1970, 1, 1) - offset) // timedelta(microseconds=1)
    return whole + int(fraction[:6].ljust(6, "0"))


@Integral.register
class Whole:
    """A whole number of another library, as NumPy has them."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value

    __int__ = __index__


@Real.register
class Broken:
    def __init__(self, value: float) -> None:
        self.value = value

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        return str(self.value)
