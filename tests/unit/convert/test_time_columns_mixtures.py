"""What a timestamp means does not depend on the others, nor on the way it is read."""

from datetime import UTC, date, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.bad_records.refusals import BadRowsError
from tests.unit.convert.moments import EAST, Broken, S, Whole, hours

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


@given(st.lists(st.sampled_from(sorted(ONE_OF_EACH)), max_size=8))
def test_what_a_value_means_does_not_depend_on_the_others(names: list[str]) -> None:
    values = [ONE_OF_EACH[name] for name in names]
    assert hours(values) == [hours([value])[0] for value in values]


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
