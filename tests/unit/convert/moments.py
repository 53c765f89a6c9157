"""Timestamps as tests see them: hours as text, reasons of refusals, numbers of other libraries."""

from collections.abc import Sequence
from datetime import timedelta, timezone
from numbers import Integral, Real
from typing import Any

import pytest

from app.bad_records.refusals import BadRowsError
from app.convert.time_columns import time_parts

LAST_NANOSECOND = 253_402_300_800 * 10**9 - 1
S = 1_705_320_000  # 2024-01-15T12:00:00Z
NOON = "2024-01-15 12"
EAST = timezone(timedelta(hours=5, minutes=30))


def hours(values: Sequence[Any]) -> list[str | None]:
    """What the time columns say of each value, as ``2024-01-15 12``."""
    parts = time_parts(values)
    rows = zip(*(parts[name].to_pylist() for name in ("year", "month", "day", "hour")), strict=True)
    return [None if year is None else f"{year}-{month}-{day} {hour}" for year, month, day, hour in rows]


def reasons(values: Sequence[Any]) -> dict[int, str]:
    """Why which values are refused."""
    with pytest.raises(BadRowsError) as caught:
        time_parts(values)
    return caught.value.reasons


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
    """A fraction of another library."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        return str(self.value)
