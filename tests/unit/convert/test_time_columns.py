"""The time columns: year, month, day and hour of timestamps of every kind."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.convert.time_columns import moments, moments_of_column
from tests.unit.convert.moments import EAST, LAST_NANOSECOND, NOON, Broken, S, Whole, hours


@pytest.mark.parametrize("per_second", [1, 10**3, 10**6, 10**9])
def test_the_unit_of_whole_numbers_follows_from_their_size(per_second: int) -> None:
    assert hours([S * per_second]) == [NOON]


@pytest.mark.parametrize("per_second", [1.0, 1e3, 1e6, 1e9])
def test_the_unit_of_floats_follows_from_their_size(per_second: float) -> None:
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


@pytest.mark.parametrize("value", [Whole(S), Whole(S * 10**6), Broken(S + 0.5), Broken(S * 1e9)])
def test_numbers_of_other_libraries(value: Any) -> None:
    assert hours([value, None, value]) == [NOON, None, NOON]


def test_large_numbers_of_other_libraries() -> None:
    assert hours([Whole(2**64 - 1)]) == ["2554-07-21 23"]


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
        "2024-01-15t12:00:00z",
        "2024-01-15T12:34:56.789z",
        "2024-01-15 12:00z",
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


@pytest.mark.parametrize(
    "value",
    [
        S,
        S * 10**3,
        S * 10**6,
        S * 10**9 + 999,
        float(S),
        S * 1e3,
        "2024-01-15T12:00:00Z",
        "2024-01-15 13:00:00+01:00",
        datetime(2024, 1, 15, 12, tzinfo=UTC),
    ],
)
def test_the_moment_of_a_timestamp(value: object) -> None:
    noon = datetime(2024, 1, 15, 12, tzinfo=UTC)
    assert moments([value, None, value]).to_pylist() == [noon, None, noon]
    of_column = moments_of_column(pa.array([value]))
    assert of_column is not None
    assert of_column.to_pylist() == [noon]


@pytest.mark.parametrize(
    ("value", "micros"),
    [
        (S * 10**3 + 123, 123_000),
        (S * 1e3 + 123.0, 123_000),
        (S * 10**6 + 123_456, 123_456),
        (S * 10**9 + 123_456_789, 123_456),
        (-1, 0),
        ("2024-01-15T12:00:00.123456", 123_456),
    ],
)
def test_a_moment_has_microseconds(value: object, micros: int) -> None:
    assert moments([value]).to_pylist()[0].microsecond == micros


@pytest.mark.parametrize("value", ["noon", True, float("nan"), 10**30, 1e30, [1]])
def test_what_is_no_timestamp_has_no_moment(value: object) -> None:
    assert moments([value]).to_pylist() == [None]
