"""The time columns: year, month, day and hour of timestamps of every kind, whatever is beside them."""

import re
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.convert.time_folders import moments, moments_of_column
from tests.support import odd_json
from tests.unit.convert.conversions import fixed
from tests.unit.convert.moments import EAST, LAST_NANOSECOND, NOON, Broken, S, Whole, hours, micros_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST, LAST = (
    (moment.replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1) for moment in (datetime.min, datetime.max)
)


@pytest.mark.parametrize(
    ("value", "when"),
    [
        *((S * per_second, NOON) for per_second in (1, 10**3, 10**6, 10**9)),
        *(((S + 0.75) * per_second, NOON) for per_second in (1.0, 1e3, 1e6, 1e9)),
        (10**11, "5138-11-16 09"),  # the last second
        (10**11 + 1, "1973-03-03 09"),  # the first millisecond
        (10**14, "5138-11-16 09"),
        (10**14 + 1, "1973-03-03 09"),
        (10**17, "5138-11-16 09"),
        (10**17 + 1, "1973-03-03 09"),
        (2**63 - 1, "2262-04-11 23"),
        # Before 1970
        (0, "1970-01-01 00"),
        (-1, "1969-12-31 23"),
        (-0.5, "1969-12-31 23"),  # rounded down
        (-3599.5, "1969-12-31 23"),
        (-S * 10**3 - 1, "1915-12-18 11"),  # a millisecond before the full hour
        (-S * 10**9 - 1, "1915-12-18 11"),
        (-(2**63), "1677-09-21 00"),
        # Nanoseconds beyond 64 bits
        (2**63, "2262-04-11 23"),
        (10**19, "2286-11-20 17"),
        (-(10**19), "1653-02-10 06"),
        (LAST_NANOSECOND, "9999-12-31 23"),
        # Numbers of other libraries
        (Whole(S * 10**6), NOON),
        (Whole(2**64 - 1), "2554-07-21 23"),
        (Broken(S * 1e9), NOON),
        # Texts
        ("2024-01-15T12:00:00Z", NOON),
        ("2024-01-15T12:34:56.123456789Z", NOON),
        ("2024-01-15T17:30:00+05:30", NOON),
        ("2024-01-15", "2024-01-15 00"),
        ("20240115T120000Z", NOON),
        ("20240115T173459,5+0530", NOON),
        ("20240115t12", NOON),
        *((str(S * per_second), NOON) for per_second in (1, 10**3, 10**6, 10**9)),
        ("1701011512345", "2023-11-26 15"),
        ("20240115", "1970-08-23 06"),
        (str(LAST_NANOSECOND), "9999-12-31 23"),
        # Datetimes
        (datetime(2024, 1, 15, 17, 30, tzinfo=EAST), NOON),
        (datetime(2024, 1, 15, 12, 30), NOON),
        (date(2024, 1, 15), "2024-01-15 00"),
    ],
)
def test_what_a_timestamp_means(value: Any, when: str) -> None:
    assert hours([value]) == [when]
    assert hours([None, value, value]) == [None, when, when]


@given(st.integers(10**8 + 1, 10**10), st.sampled_from([1, 10**3, 10**6]), st.sampled_from([1, -1]))
def test_whole_numbers_agree_with_the_calendar(seconds: int, per_second: int, sign: int) -> None:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=sign * seconds)
    assert hours([sign * seconds * per_second]) == [moment.strftime("%Y-%m-%d %H").rjust(13, "0")]


@given(st.lists(st.datetimes() | st.datetimes(timezones=st.just(UTC)), min_size=1, max_size=5))
def test_texts_and_datetimes_say_the_same(moments: list[datetime]) -> None:
    expected = [f"{moment.year:04}-{moment.month:02}-{moment.day:02} {moment.hour:02}" for moment in moments]
    assert hours(moments) == expected
    assert hours([moment.isoformat() for moment in moments]) == expected


ZONES = ["Europe/Prague", "Europe/Dublin", "America/St_Johns", "America/Sao_Paulo", "Africa/Monrovia", "Asia/Kathmandu"]
ZONES += ["Australia/Lord_Howe", "Pacific/Apia", "Asia/Gaza", "Etc/GMT+12", "Africa/Casablanca", "America/Havana"]


@given(st.sampled_from(ZONES), st.lists(st.datetimes(datetime(1840, 1, 1), datetime(2099, 1, 1)), min_size=1))
@example("Pacific/Apia", [datetime(2011, 12, 30, 9, 59, 59), datetime(2011, 12, 30, 10)])  # a day that was not
@example("Africa/Monrovia", [datetime(1972, 1, 7, 0, 44, 29), datetime(1972, 1, 7, 0, 44, 30)])
@example("America/St_Johns", [datetime(2006, 10, 29, 2, 30, 59), datetime(2006, 10, 29, 2, 31)])
def test_the_time_of_a_zone_is_that_of_python_and_arrow(zone: str, moments: list[datetime]) -> None:
    zoned = [moment.replace(tzinfo=UTC) for moment in moments]
    found = hours(zoned, zone)
    assert found == [f"{moment.astimezone(ZoneInfo(zone)):%Y-%m-%d %H}" for moment in zoned]
    by_arrow = pc.local_timestamp(pa.array(zoned, pa.timestamp("us", zone))).to_pylist()
    assert [each for each in found if each and each < "2037"] == [
        f"{each:%Y-%m-%d %H}" for each in by_arrow if each.year < 2037
    ]


@pytest.mark.parametrize("zone", ["Europe/Prague", "America/New_York"])
def test_each_moment_of_the_calendar_has_a_time_in_each_zone(zone: str) -> None:
    first, last = "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"
    assert [hour and hour[:10] for hour in hours([first, None, last], zone)] == ["0001-01-01", None, "9999-12-31"]


# --- what is beside it ----------------------------------------------------------------------------------------------

ONE_OF_EACH: dict[str, Any] = {
    "int": S,
    "millis": S * 1_000,
    "nanos": S * 10**9,
    "float": S + 0.5,
    "float of micros": S * 1e6,
    "other int": Whole(S * 10**6),
    "other float": Broken(-1.5),
    "beyond 64 bits": 10**19,
    "text": "2024-01-15T12:34:56",
    "zoned text": "2024-01-15T17:30:00+05:30",
    "text in UTC": "2024-01-15T12:00:00Z",
    "long text": "2024-01-15T12:34:56.123456789Z",
    "day text": "2024-01-07",
    "datetime": datetime(2024, 1, 15, 12, 30),
    "zoned datetime": datetime(2024, 1, 15, 17, 30, tzinfo=EAST),
    "date": date(2024, 1, 15),
    "nothing": None,
}


@given(st.lists(st.sampled_from(sorted(ONE_OF_EACH)), max_size=8))
def test_what_a_value_means_does_not_depend_on_the_others(names: list[str]) -> None:
    values = [ONE_OF_EACH[name] for name in names]
    assert hours(values) == [hours([value])[0] for value in values]


ODD = ["", *"0123456789-+:.,TtZz WQ\u0663_", "99", "02:00"]


@given(odd_json.MOMENTS.map(bytes.decode), st.integers(0, 50), st.sampled_from(ODD))
@example("2024-01-15+02:00", 50, "")
@example("20240115120000Z", 50, "")
@example("20240115T120000.1234567Z", 50, "")
@example("20240115T12:00Z", 50, "")
@example("20240115 1200Z", 50, "")
@example("2024-01-15T12:00:00+05:99", 50, "")
def test_a_text_is_read_by_its_form_and_the_calendar_alone(text: str, at: int, odd: str) -> None:
    text = text[:at] + odd + text[at + 1 :]
    is_number = text.isascii() and text.isdecimal()
    micros = None if is_number else micros_of(text)
    moment = None if micros is None or not FIRST <= micros <= LAST else EPOCH + timedelta(microseconds=micros)
    as_timestamp = moments([int(text)])[0].as_py() if is_number else moment
    for others in ([], ["2024-01-15T12:00:00"], ["2024-01-15T12:00:00Z"], ["2024-01-15T12:00:00", "2024-01-15 12Z"]):
        assert moments([*others, text])[-1].as_py() == as_timestamp
        of_column = moments_of_column(pa.array([*others, text]))
        assert (None if of_column is None else of_column[-1].as_py()) == as_timestamp
    fraction = re.search(r"[.,](\d+)", text)
    is_exact = fraction is None or not fraction[1][6:].strip("0")
    has_zone = re.search(r"[ tT].*[Zz+-]", text) is not None
    for kind, stored in {
        "timestamp": moment if is_exact else None,
        "timestamp_ntz": moment.replace(tzinfo=None) if moment and is_exact and not has_zone else None,
        "date": moment.date() if moment and len(text) == len("2024-01-15") else None,
    }.items():
        for odd_ones in ([], [{"x": b"odd"}]):
            table = fixed(f"x:{kind}", {"x": text}, *odd_ones).table
            assert (table["x"][0].as_py() if "x" in table.column_names else None) == stored


# --- the moment itself ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        S,
        S * 10**9 + 999,
        S * 1e3,
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


@pytest.mark.parametrize("value", ["noon", "9" * 31, True, float("nan"), 10**30, 1e30, [1]])
def test_what_is_no_timestamp_has_no_moment(value: object) -> None:
    assert moments([value]).to_pylist() == [None]
