"""Timestamps that are null, and those that nothing can be made of: all are reported, each with its reason."""

import math
from datetime import datetime, timedelta, tzinfo
from decimal import Decimal
from typing import Any

import pytest

from tests.unit.convert.moments import EAST, LAST_NANOSECOND, S, hours, reasons


@pytest.mark.parametrize("values", [[], [None, None]])
def test_null_has_no_parts(values: list[None]) -> None:
    assert hours(values) == values


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("yesterday", "'yesterday' {1}"),
        ("", "'' {1}"),
        ("-1705320000", "'-1705320000' {1}"),
        ("2024-01-15\ud800", "'2024-01-15\\ud800' {1}"),
        ("20240115120000Z", "'20240115120000Z' {1}"),
        ("2024-02-30", "'2024-02-30' {1}"),
        ("9" * 24, "'999999999999999999999999' {1}"),
        ("0001-01-01T00:00:00+05:30", "'0001-01-01T00:00:00+05:30' {}: outside the years 1 to 9999"),
        ("9999-12-31T23:59:59-01:00", "'9999-12-31T23:59:59-01:00' {}: outside the years 1 to 9999"),
        (datetime(1, 1, 1, tzinfo=EAST), "'0001-01-01 00:00:00+05:30' {}: outside the years 1 to 9999"),
        (-(10**11), "'-100000000000' {}: outside the years 1 to 9999"),
        (LAST_NANOSECOND + 1, "'253402300800000000000' {}: outside the years 1 to 9999"),
        pytest.param(10**5_000, "a number of 16,610 bits {}: outside the years 1 to 9999", id="huge"),
        (-1e11, "'-100000000000.0' {}: outside the years 1 to 9999"),
        (1e30, "'1e+30' {}: outside the years 1 to 9999"),
        (math.nan, "'nan' {}: not a finite number"),
        (-math.inf, "'-inf' {}: not a finite number"),
        (True, "'True' {}: a bool is no timestamp"),
        ({"a": 1}, "\"{{'a': 1}}\" {}: a dict is no timestamp"),
        (Decimal("1.5"), "'1.5' {}: a Decimal is no timestamp"),
        (b"2024-01-15", "\"b'2024-01-15'\" {}: a bytes is no timestamp"),
    ],
)
@pytest.mark.parametrize("others", [[], [S], [1.5], ["2024-01-15"], [datetime(2024, 1, 15)], [None]])
def test_an_unusable_timestamp_is_reported_whatever_is_beside_it(value: Any, reason: str, others: list[Any]) -> None:
    expected = reason.format("is no usable timestamp", "is no timestamp such as 2024-01-15T12:00:00Z or 1705320000")
    assert reasons([value, *others]) == {0: expected}
    assert reasons([*others, value]) == {len(others): expected}


def test_all_unusable_timestamps_are_reported_at_once() -> None:
    values = [S, "yesterday", None, True, 1.5, math.nan, "2024-01-15", -(10**11), S]
    assert list(reasons(values)) == [1, 3, 5, 7]


class Survey(tzinfo):
    """A zone that does not know its offset."""

    def utcoffset(self, moment: datetime | None) -> timedelta:
        raise ValueError("unknown")

    dst = tzname = utcoffset  # type: ignore[assignment]

    def __str__(self) -> str:
        return "survey"


class Nameless(datetime):
    """A datetime that can be shown although its zone knows nothing, as the NaT of pandas."""

    def __str__(self) -> str:
        return "sometime"


def test_a_datetime_without_a_known_offset_is_refused_alone() -> None:
    moment = Nameless(2024, 1, 15, tzinfo=Survey())
    assert reasons([moment, moment, datetime(2024, 1, 15)]) == dict.fromkeys(
        (0, 1), "'sometime' is no usable timestamp: a Nameless is no timestamp"
    )


def test_a_long_text_is_shown_cut() -> None:
    assert len(reasons(["x" * 1_000])[0]) < 150
