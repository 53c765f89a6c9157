"""Time parts of a timestamp column, whatever form its values have.

Integers and floats are epochs whose unit is told by their size, row by row, because one topic may carry several
producers; strings are ISO-8601, with or without a zone (without: UTC); datetimes and dates are what they are.
"""

from collections.abc import Mapping
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

TIME_COLUMNS = ("year", "month", "day", "hour")

# |value| above the bound → how many of its units make a second. Below the last bound values are seconds.
_UNITS = ((10**17, 10**9), (10**14, 10**6), (10**11, 10**3))
_YEARS = (1, 9999)


class BadValueError(ValueError):
    """A value that cannot be used, at position ``row`` of the table."""

    def __init__(self, row: int, reason: str) -> None:
        self.row = row
        self.reason = reason
        super().__init__(f"row {row}: {reason}")


def time_parts(column: pa.ChunkedArray) -> Mapping[str, pa.Array]:
    """Year (4 digits), month, day and hour (2 digits each) in UTC as string arrays; null where the value is null.

    Raises:
        BadValueError: a value that is no timestamp, or outside the years 1 to 9999.
    """
    stamps = _to_timestamps(column)
    years = pc.year(stamps)
    beyond = pc.or_(pc.less(years, _YEARS[0]), pc.greater(years, _YEARS[1]))
    _refuse_first(beyond, column, "outside the years 1 to 9999")
    digits = {"year": years, "month": pc.month(stamps), "day": pc.day(stamps), "hour": pc.hour(stamps)}
    return {
        name: pc.utf8_lpad(part.cast(pa.string()), 4 if name == "year" else 2, "0") for name, part in digits.items()
    }


def _to_timestamps(column: pa.ChunkedArray) -> pa.Array:
    array = column.combine_chunks()
    kind = array.type
    if pa.types.is_timestamp(kind):
        return array.cast(pa.timestamp(kind.unit, "UTC")).cast(pa.timestamp(kind.unit)) if kind.tz else array
    if pa.types.is_date(kind):
        return array.cast(pa.timestamp("ms"))
    if pa.types.is_integer(kind):
        return _seconds_of_integers(array.cast(pa.int64())).cast(pa.timestamp("s"))
    if pa.types.is_floating(kind):
        return _seconds_of_floats(array.cast(pa.float64()), column).cast(pa.timestamp("s"))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _parse_iso(array)
    if pa.types.is_null(kind):
        return array.cast(pa.timestamp("s"))
    _refuse_first(pc.is_valid(array), column, f"a {kind} is no timestamp")
    return pa.nulls(len(array), pa.timestamp("s"))


def _seconds_of_integers(values: pa.Array) -> pa.Array:
    """Epoch seconds, rounded down: Arrow divides towards zero, which would put 1969-12-31T23:59:59.5 into 1970."""
    seconds = values
    for bound, per_second in reversed(_UNITS):
        quotient = pc.divide(values, per_second)
        rounded_up = pc.greater(pc.multiply(quotient, per_second), values)
        floor = pc.subtract(quotient, rounded_up.cast(pa.int64()))
        beyond = pc.or_(pc.greater(values, bound), pc.less(values, -bound))
        seconds = pc.if_else(beyond, floor, seconds)
    return seconds


def _seconds_of_floats(values: pa.Array, column: pa.ChunkedArray) -> pa.Array:
    _refuse_first(pc.invert(pc.is_finite(values)), column, "not a finite number")
    seconds = values
    for bound, per_second in reversed(_UNITS):
        beyond = pc.greater(pc.abs(values), float(bound))
        seconds = pc.if_else(beyond, pc.divide(values, float(per_second)), seconds)
    _refuse_first(pc.greater(pc.abs(seconds), 1e12), column, "outside the years 1 to 9999")
    return pc.floor(seconds).cast(pa.int64())


def _parse_iso(strings: pa.Array) -> pa.Array:
    """All with a zone or all without is parsed at once by Arrow, which takes just one of the two per call."""
    try:
        return strings.cast(pa.timestamp("us"))
    except pa.ArrowInvalid:
        pass
    try:
        return strings.cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us"))
    except pa.ArrowInvalid:
        return pa.array([_parse_one(row, text) for row, text in enumerate(strings.to_pylist())], pa.timestamp("us"))


def _parse_one(row: int, text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
    except (ValueError, OverflowError):
        raise BadValueError(row, f"{text[:80]!r} is no ISO-8601 timestamp") from None


def _refuse_first(bad: pa.Array, column: pa.ChunkedArray, reason: str) -> None:
    row = pc.index(pc.fill_null(bad, False), True).as_py()
    if row >= 0:
        raise BadValueError(row, f"{str(column[row].as_py())[:80]!r} is no usable timestamp: {reason}")
