"""Year, month, day and hour of timestamps of every kind, row by row."""

import math
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.timestamps import BadValueError, time_parts

S = 1_705_320_000  # 2024-01-15T12:00:00Z
NOON = "2024-01-15 12"
EAST = timezone(timedelta(hours=5, minutes=30))


def hours(values: Sequence[object] | pa.Array) -> list[str | None]:
    """What the time columns say of each value, as ``2024-01-15 12``."""
    array = values if isinstance(values, pa.Array) else pa.array(values)
    parts = time_parts(pa.chunked_array([array]))
    rows = zip(*(parts[name].to_pylist() for name in ("year", "month", "day", "hour")), strict=True)
    return [None if year is None else f"{year}-{month}-{day} {hour}" for year, month, day, hour in rows]


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


def test_short_integers() -> None:
    assert hours(pa.array([S], pa.int32())) == [NOON]


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


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Kolkata"])
def test_timestamps_of_any_unit_and_zone(unit: str, zone: str | None) -> None:
    moments = pa.array([S], pa.timestamp("s", "UTC")).cast(pa.timestamp(unit, "UTC"))
    assert hours(moments.cast(pa.timestamp(unit, zone))) == [NOON]


def test_dates_begin_at_midnight() -> None:
    assert hours([date(2024, 1, 15), None]) == ["2024-01-15 00", None]


# --- nothing, and nothing usable ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", [pa.null(), pa.int64(), pa.float64(), pa.string(), pa.timestamp("us"), pa.date32(), pa.bool_()]
)
def test_null_has_no_parts(kind: pa.DataType) -> None:
    assert hours(pa.nulls(2, kind)) == [None, None]


@pytest.mark.parametrize(
    ("values", "row", "words"),
    [
        (["2024-01-15", "yesterday"], 1, "'yesterday' is no ISO-8601 timestamp"),
        (["2024-01-15", None, "2024-13-01"], 2, "'2024-13-01' is no ISO-8601 timestamp"),
        (["2024-01-15T12:00:00Z", "2024-01-15T12:00:00", ""], 2, "'' is no ISO-8601 timestamp"),
        (["1705320000000"], 0, "no ISO-8601 timestamp"),
        (["0001-01-01T00:00:00+05:30"], 0, "outside the years 1 to 9999"),
        (["0001-01-01T00:00:00+05:30", "2024-01-15"], 0, "no ISO-8601 timestamp"),
        ([1, 2, -(10**11)], 2, "'-100000000000' is no usable timestamp: outside the years 1 to 9999"),
        ([1.0, None, math.nan], 2, "'nan' is no usable timestamp: not a finite number"),
        ([1.0, math.inf], 1, "'inf' is no usable timestamp: not a finite number"),
        ([1.0, 1e30], 1, "'1e+30' is no usable timestamp: outside the years 1 to 9999"),
        ([1.0, -1e11], 1, "outside the years 1 to 9999"),
        ([None, True], 1, "'True' is no usable timestamp: a bool is no timestamp"),
        ([None, {"a": 1}], 1, "is no timestamp"),
        ([Decimal("1.5")], 0, "is no timestamp"),
    ],
)
def test_an_unusable_timestamp_is_told_with_its_row(values: list[object], row: int, words: str) -> None:
    with pytest.raises(BadValueError) as caught:
        hours(values)
    assert caught.value.row == row
    assert words in caught.value.reason


def test_a_long_text_is_shown_cut() -> None:
    with pytest.raises(BadValueError) as caught:
        hours(["x" * 1_000])
    assert len(caught.value.reason) < 150
