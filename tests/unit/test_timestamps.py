"""Year, month, day and hour of timestamps of every kind, row by row."""

import math
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Real
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.bad_rows import BadRowsError
from app.timestamps import time_parts

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


# --- numbers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("per_second", [1, 10**3, 10**6, 10**9])
def test_the_unit_of_whole_numbers_is_told_by_their_size(per_second: int) -> None:
    assert hours([S * per_second]) == [NOON]


@pytest.mark.parametrize("per_second", [1.0, 1e3, 1e6, 1e9])
def test_the_unit_of_floats_is_told_by_their_size(per_second: float) -> None:
    assert hours([(S + 0.75) * per_second]) == [NOON]


def test_each_row_has_its_own_unit() -> None:
    assert hours([S * 10**9, S, S * 10**6, S * 10**3]) == [NOON] * 4
    assert hours([S * 1e9, S * 1.0, S * 1e6, S * 1e3]) == [NOON] * 4


@pytest.mark.parametrize(
    ("value", "when"),
    [
        (10**11, "5138-11-16 09"),  # the last second
        (10**11 + 1, "1973-03-03 09"),  # the first millisecond
        (10**14, "5138-11-16 09"),
        (10**14 + 1, "1973-03-03 09"),
        (10**17, "5138-11-16 09"),
        (10**17 + 1, "1973-03-03 09"),
        (2**63 - 1, "2262-04-11 23"),
    ],
)
def test_the_bounds_between_units(value: int, when: str) -> None:
    assert hours([value]) == [when]


@pytest.mark.parametrize(
    ("value", "when"),
    [
        (0, "1970-01-01 00"),
        (-1, "1969-12-31 23"),
        (-3600, "1969-12-31 23"),
        (-3601, "1969-12-31 22"),
        (-S, "1915-12-18 12"),
        (-S * 10**3, "1915-12-18 12"),
        (-S * 10**3 - 1, "1915-12-18 11"),  # a millisecond before the full hour
        (-S * 10**6 - 1, "1915-12-18 11"),
        (-S * 10**9 - 1, "1915-12-18 11"),
        (-(2**63), "1677-09-21 00"),
    ],
)
def test_numbers_before_1970(value: int, when: str) -> None:
    assert hours([value]) == [when]


@pytest.mark.parametrize("value", [-0.5, -3599.5])
def test_fractions_before_1970_are_rounded_down(value: float) -> None:
    assert hours([value]) == ["1969-12-31 23"]


@settings(deadline=None)
@given(st.integers(10**8 + 1, 10**10), st.sampled_from([1, 10**3, 10**6]), st.sampled_from([1, -1]))
def test_whole_numbers_agree_with_the_calendar(seconds: int, per_second: int, sign: int) -> None:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=sign * seconds)
    assert hours([sign * seconds * per_second]) == [moment.strftime("%Y-%m-%d %H").rjust(13, "0")]


@pytest.mark.parametrize(
    ("value", "when"),
    [
        (2**63, "2262-04-11 23"),
        (10**19, "2286-11-20 17"),
        (-(10**19), "1653-02-10 06"),
        (LAST_NANOSECOND, "9999-12-31 23"),
        (float(10**19), "2286-11-20 17"),
    ],
)
def test_nanoseconds_beyond_64_bits(value: float, when: str) -> None:
    assert hours([value, S]) == [when, NOON]


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


@pytest.mark.parametrize("value", [Whole(S), Whole(S * 10**6), Broken(S + 0.5), Broken(S * 1e9)])
def test_numbers_of_other_libraries(value: Any) -> None:
    assert hours([value, None, value]) == [NOON, None, NOON]


def test_large_numbers_of_other_libraries() -> None:
    assert hours([Whole(2**64 - 1)]) == ["2554-07-21 23"]


# --- text -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "2024-01-15T12:00:00Z",
        "2024-01-15T12:34:56.789Z",
        "2024-01-15T12:34:56.123456789Z",
        "2024-01-15T12:34:56",
        "2024-01-15 12:34:56.5",
        "2024-01-15T12:34",
        "2024-01-15T17:30:00+05:30",
        "2024-01-15T17:30:00+0530",
        "2024-01-15T05:00:00-07:00",
        "2024-01-15T12:00:00+00:00",
    ],
)
def test_iso_8601_with_and_without_a_zone(text: str) -> None:
    assert hours([text]) == [NOON]


def test_a_day_alone_begins_at_midnight() -> None:
    assert hours(["2024-01-15"]) == ["2024-01-15 00"]


def test_zones_may_be_mixed_in_one_column() -> None:
    texts = ["2024-01-15T12:00:00", "2024-01-15T17:30:00+05:30", None, "2024-01-15T12:59:59.999999999Z"]
    assert hours(texts) == [NOON, NOON, None, NOON]


@pytest.mark.parametrize("text", ["2024-01-15T12:00:00", "2024-01-15T12:34:56.5", "2024-01-15"])
def test_the_neighbours_do_not_change_what_a_text_means(text: str) -> None:
    assert hours([text, "2024-01-15T12:00:00Z"])[0] == hours([text])[0]


def test_the_first_and_the_last_year() -> None:
    texts = ["0001-01-01T00:00:00", "9999-12-31T23:59:59"]
    assert hours(texts) == ["0001-01-01 00", "9999-12-31 23"]


# --- datetimes and dates --------------------------------------------------------------------------------------------


def test_datetimes_are_taken_in_utc() -> None:
    assert hours([datetime(2024, 1, 15, 17, 30, tzinfo=EAST)]) == [NOON]
    assert hours([datetime(2024, 1, 15, 12, 30)]) == [NOON]


def test_datetimes_with_and_without_a_zone_meet() -> None:
    moments = [datetime(2024, 1, 15, 12, 30), datetime(2024, 1, 15, 17, 30, tzinfo=EAST), None]
    assert hours(moments) == [NOON, NOON, None]
    assert hours(moments[::-1]) == [None, NOON, NOON]


def test_the_first_and_the_last_datetime() -> None:
    assert hours([datetime.min, datetime.max]) == ["0001-01-01 00", "9999-12-31 23"]


def test_dates_begin_at_midnight() -> None:
    assert hours([date(2024, 1, 15), None]) == ["2024-01-15 00", None]


# --- mixtures -------------------------------------------------------------------------------------------------------

ONE_OF_EACH: dict[str, Any] = {
    "int": S,
    "millis": S * 1_000,
    "float": S + 0.5,
    "other int": Whole(S * 10**6),
    "other float": Broken(-1.5),
    "beyond 64 bits": 10**19,
    "text": "2024-01-15T12:34:56",
    "zoned text": "2024-01-15T17:30:00+05:30",
    "long text": "2024-01-15T12:34:56.123456789Z",
    "day text": "2024-01-07",
    "datetime": datetime(2024, 1, 15, 12, 30),
    "zoned datetime": datetime(2024, 1, 15, 17, 30, tzinfo=EAST),
    "date": date(2024, 1, 15),
    "nothing": None,
}


@settings(deadline=None)
@given(st.lists(st.sampled_from(sorted(ONE_OF_EACH)), max_size=8))
def test_what_a_value_means_does_not_depend_on_the_others(names: list[str]) -> None:
    values = [ONE_OF_EACH[name] for name in names]
    assert hours(values) == [hours([value])[0] for value in values]


@settings(deadline=None)
@given(st.lists(st.datetimes() | st.datetimes(timezones=st.just(UTC)), min_size=1, max_size=5))
def test_texts_and_datetimes_say_the_same(moments: list[datetime]) -> None:
    expected = [f"{moment.year:04}-{moment.month:02}-{moment.day:02} {moment.hour:02}" for moment in moments]
    assert hours(moments) == expected
    assert hours([moment.isoformat() for moment in moments]) == expected


# Texts near the forms of ISO-8601: whatever the quick way takes, the slow way must take alike.
PIECES = (
    "2024",
    "-",
    "01",
    "15",
    "T",
    " ",
    "12",
    ":",
    "34",
    "60",
    ".",
    "5",
    "Z",
    "z",
    "+05:30",
    "-07",
    "+0530",
    ",",
    "é",
)


@settings(deadline=None, max_examples=500)
@given(
    st.sampled_from(("2024-01-15", "2024-01-15T12:34", "0000-01-01", "")), st.lists(st.sampled_from(PIECES), max_size=5)
)
def test_a_text_is_read_alike_with_others_and_alone(start: str, pieces: list[str]) -> None:
    def read(values: list[str]) -> str | None:
        try:
            return hours(values)[0]
        except BadRowsError as error:
            return str(error)

    text = start + "".join(pieces)
    slow = read([text, "2024-01-15T12:00:00", "2024-01-15T12:00:00Z"])
    assert read([text]) == slow


# --- nothing, and nothing usable ------------------------------------------------------------------------------------


@pytest.mark.parametrize("values", [[], [None, None]])
def test_null_has_no_parts(values: list[None]) -> None:
    assert hours(values) == values


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("yesterday", "'yesterday' is no ISO-8601 timestamp"),
        ("2024-13-01", "'2024-13-01' is no ISO-8601 timestamp"),
        ("", "'' is no ISO-8601 timestamp"),
        ("1705320000000", "'1705320000000' is no ISO-8601 timestamp"),
        ("2024-01-15\ud800", "'2024-01-15\\ud800' is no ISO-8601 timestamp"),
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
        (Broken(math.inf), "'inf' {}: not a finite number"),
        (True, "'True' {}: a bool is no timestamp"),
        ({"a": 1}, "\"{{'a': 1}}\" {}: a dict is no timestamp"),
        (Decimal("1.5"), "'1.5' {}: a Decimal is no timestamp"),
        (Fraction(1, 2), "'1/2' {}: a Fraction is no timestamp"),
        (time(12), "'12:00:00' {}: a time is no timestamp"),
        (b"2024-01-15", "\"b'2024-01-15'\" {}: a bytes is no timestamp"),
    ],
)
@pytest.mark.parametrize("others", [[], [S], [1.5], ["2024-01-15"], [datetime(2024, 1, 15)], [None]])
def test_an_unusable_timestamp_is_told_whatever_stands_beside_it(value: Any, reason: str, others: list[Any]) -> None:
    expected = reason.format("is no usable timestamp")
    assert reasons([value, *others]) == {0: expected}
    assert reasons([*others, value]) == {len(others): expected}


def test_all_unusable_timestamps_are_told_at_once() -> None:
    values = [S, "yesterday", None, True, 1.5, math.nan, "2024-01-15", -(10**11), S]
    assert list(reasons(values)) == [1, 3, 5, 7]


class Unsettled(tzinfo):
    """A zone that does not know its offset."""

    def utcoffset(self, moment: datetime | None) -> timedelta:
        raise ValueError("unknown")

    dst = tzname = utcoffset  # type: ignore[assignment]

    def __str__(self) -> str:
        return "unsettled"


class Nameless(datetime):
    """A datetime that can be shown although its zone knows nothing, as the NaT of pandas."""

    def __str__(self) -> str:
        return "sometime"


def test_a_datetime_without_a_known_offset_is_refused_alone() -> None:
    moment = Nameless(2024, 1, 15, tzinfo=Unsettled())
    assert reasons([moment, moment, datetime(2024, 1, 15)]) == dict.fromkeys(
        (0, 1), "'sometime' is no usable timestamp: a Nameless is no timestamp"
    )


def test_a_long_text_is_shown_cut() -> None:
    assert len(reasons(["x" * 1_000])[0]) < 150
