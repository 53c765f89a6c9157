"""Converts each row's timestamp to a moment and to the partition columns ``year``, ``month``, ``day`` and ``hour``.

``zoneinfo`` provides the rules of time zones, because Arrow knows no summer time after 2037.

Each timestamp is converted separately, so a row never depends on another row. A timestamp has one of these forms:

- A number is the time since 1970. Its size decides the unit in each row, because producers may use different units.
- A text is parsed by ``app.time_texts``. A text without a zone is in UTC. A text that contains only digits is a number.
- A ``datetime`` or ``date`` is the result of a deserializer or of ``transform()``.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from numbers import Integral, Rational, Real
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from app.bad_records.refusals import BadRowsError
from app.convert.bounds import MICROSECONDS
from app.convert.columns import parse_times
from app.convert.scalars import UNZONED, ZONED, OutOfRange, is_within
from app.reason_texts import Reason, about, shown
from app.table.layout import UTC_ZONE
from app.time_texts import TIME_OR_NUMBER, time_or_number

# Pairs (bound, units in a second). An absolute value above the bound has this unit. Smaller values are seconds.
_UNITS = ((10**17, 10**9), (10**14, 10**6), (10**11, 10**3))
_FIRST, _LAST = MICROSECONDS
_MICROS_A_SECOND, _MICROS_AN_HOUR = 10**6, 3_600 * 10**6
_EPOCH, _DAY = datetime(1970, 1, 1, tzinfo=UTC), 24 * _MICROS_AN_HOUR


def time_parts(values: Sequence[Any], zone: str = UTC_ZONE) -> Mapping[str, pa.Array]:
    """Returns the texts of year (4 digits), month, day and hour (2 digits) in the time zone; null for ``None``.

    Raises:
        BadRowsError: values are not timestamps, or are outside the years 1 to 9999. The error lists all these rows.
    """
    micros = _micros(values)
    unusable = pc.invert(pc.fill_null(_is_inside(micros), False))
    rows = pc.indices_nonzero(unusable).to_pylist() if pc.any(unusable).as_py() else []
    reasons = {row: _reason(values[row]) for row in rows if values[row] is not None}
    if reasons:
        raise BadRowsError(reasons)
    return parts_of(micros, zone)


def moments(values: Sequence[Any]) -> pa.Array:
    """Returns the moment of each value; null for ``None`` and for values that are not usable timestamps."""
    micros = _micros(values)
    return pc.if_else(_is_inside(micros), micros, None).cast(ZONED)


def moments_of_column(column: pa.Array) -> pa.Array | None:
    """Returns the moments of a column without nulls; ``None`` if a value is not a usable timestamp."""
    if pa.types.is_temporal(column.type):
        micros = column.cast(pa.timestamp("us", getattr(column.type, "tz", None))).cast(pa.int64())
    elif pa.types.is_integer(column.type):
        micros = _epoch_micros(column.cast(pa.int64()))
    elif pa.types.is_floating(column.type):
        micros = _epoch_micros_of_doubles(column)
    elif pa.types.is_string(column.type):
        micros = _micros_of_texts(column)
    else:
        return None
    return micros.cast(ZONED) if pc.all(pc.fill_null(_is_inside(micros), False)).as_py() else None


def _is_inside(micros: pa.Array) -> pa.Array:
    return pc.and_(pc.greater_equal(micros, _FIRST), pc.less_equal(micros, _LAST))


def parts_of(micros: pa.Array, zone: str) -> Mapping[str, pa.Array]:
    """Returns the same texts as ``time_parts``. ``micros`` contains the moments in microseconds since the epoch."""
    # Many rows have the same hour, so each distinct hour is calculated only once.
    hours = _floor_divide(_local(micros, zone), _MICROS_AN_HOUR).dictionary_encode()
    stamps = pc.multiply(hours.dictionary, 3600).cast(pa.timestamp("s"))
    digits = {"year": pc.year(stamps), "month": pc.month(stamps), "day": pc.day(stamps), "hour": pc.hour(stamps)}
    return {
        name: pc.utf8_lpad(part.cast(pa.string()), 4 if name == "year" else 2, "0").take(hours.indices)
        for name, part in digits.items()
    }


def _local(micros: pa.Array, zone: str) -> pa.Array:
    """Returns the local time at these moments, in microseconds since 1970, within the years 1 to 9999."""
    if zone == UTC_ZONE:
        return micros
    # Offsets are read at both ends of each hour, and for each row if the clocks change in the hour.
    hours = _floor_divide(micros, _MICROS_AN_HOUR).dictionary_encode()
    starts = pc.multiply(hours.dictionary, _MICROS_AN_HOUR)
    first, last = _offsets(starts, zone), _offsets(pc.add(starts, _MICROS_AN_HOUR - 1), zone)
    changes = pc.not_equal(first, last).take(hours.indices)
    exact = _offsets(micros.filter(changes), zone)
    local = pc.add(micros, pc.replace_with_mask(first.take(hours.indices), changes, exact))
    return pc.max_element_wise(pc.min_element_wise(local, _LAST, skip_nulls=False), _FIRST, skip_nulls=False)


def _offsets(micros: pa.Array, zone: str) -> pa.Array:
    """Returns the zone's offset from UTC at each moment, in microseconds."""
    clocks = ZoneInfo(zone)
    # Moments stay a day away from the calendar's first and last moments, because local dates may not exist there.
    near = (min(max(moment, _FIRST + _DAY), _LAST - _DAY) for moment in micros.to_pylist())
    moments = [_EPOCH + timedelta(microseconds=moment) for moment in near]
    offsets = (moment.astimezone(clocks).replace(tzinfo=UTC) - moment for moment in moments)
    return pa.array([offset // timedelta(microseconds=1) for offset in offsets], pa.int64())


def _micros(values: Sequence[Any]) -> pa.Array:
    """Returns microseconds since the epoch (int64), rounded down; null for ``None`` and for values of other types.

    Each type is converted separately, because Arrow would convert all values to one type, and change some values.
    """
    kinds = set(map(type, values)) - {type(None)}
    if len(kinds) == 1:
        return _converter(kinds.pop())(values)
    micros: list[int | None] = [None] * len(values)
    for kind in kinds:
        rows = [row for row, value in enumerate(values) if type(value) is kind]
        converted = _converter(kind)([values[row] for row in rows]).to_pylist()
        for row, moment in zip(rows, converted, strict=True):
            micros[row] = moment
    return pa.array(micros, pa.int64())


def _converter(kind: type) -> Callable[[Sequence[Any]], pa.Array]:
    if kind not in (bool, OutOfRange) and issubclass(kind, Integral):
        return _micros_of_integers
    if issubclass(kind, Real) and not issubclass(kind, Rational):  # float, or a float of NumPy
        return _micros_of_floats
    if issubclass(kind, str):
        return _micros_of_texts
    if issubclass(kind, datetime):
        return _micros_of_datetimes
    if issubclass(kind, date):
        return lambda values: pa.array(values, pa.date32()).cast(pa.timestamp("us")).cast(pa.int64())
    return lambda values: pa.nulls(len(values), pa.int64())


def _micros_of_integers(values: Sequence[Any]) -> pa.Array:
    try:
        numbers = pa.array(values, pa.int64())
    except (OverflowError, pa.ArrowInvalid):  # nanoseconds after the year 2262 need more than 64 bits
        return pa.array([None if value is None else _micros_of_integer(int(value)) for value in values], pa.int64())
    return _epoch_micros(numbers)


def _epoch_micros(numbers: pa.Array) -> pa.Array:
    micros = pc.multiply(numbers, _MICROS_A_SECOND)
    sizes = pc.min_max(numbers).as_py()
    largest = max(abs(sizes["min"]), abs(sizes["max"]))
    for bound, per_second in reversed(_UNITS):
        if largest > bound:
            beyond = pc.or_(pc.greater(numbers, bound), pc.less(numbers, -bound))
            finer, factor = per_second // _MICROS_A_SECOND, _MICROS_A_SECOND // per_second
            scaled = _floor_divide(numbers, finer) if finer else pc.multiply(numbers, factor)
            micros = pc.if_else(beyond, scaled, micros)
    return micros


def _micros_of_integer(value: int) -> int | None:
    per_second = next((per_second for bound, per_second in _UNITS if abs(value) > bound), 1)
    micros = value * _MICROS_A_SECOND // per_second
    return micros if is_within(micros, pa.int64()) else None


def _floor_divide(values: pa.Array, divisor: int) -> pa.Array:
    """Divides, and rounds down. Arrow rounds towards zero, and would move 1969-12-31T23:59:59.5 to 1970."""
    quotient = pc.divide(values, divisor)
    rounded_up = pc.greater(pc.multiply(quotient, divisor), values)
    return pc.subtract(quotient, rounded_up.cast(pa.int64()))


def _micros_of_floats(values: Sequence[Any]) -> pa.Array:
    return _epoch_micros_of_doubles(
        pa.array([None if value is None else float(value) for value in values], pa.float64())
    )


def _epoch_micros_of_doubles(numbers: pa.Array) -> pa.Array:
    seconds = numbers
    for bound, per_second in reversed(_UNITS):
        beyond = pc.greater(pc.abs(numbers), float(bound))
        seconds = pc.if_else(beyond, pc.divide(numbers, float(per_second)), seconds)
    usable = pc.and_(pc.is_finite(seconds), pc.less(pc.abs(seconds), 1e12))  # larger numbers could exceed int64
    seconds = pc.if_else(usable, seconds, None)
    whole = pc.floor(seconds)
    rest = pc.min_element_wise(pc.round(pc.multiply(pc.subtract(seconds, whole), 1e6)), 999_999.0, skip_nulls=False)
    return pc.add(pc.multiply(whole.cast(pa.int64()), _MICROS_A_SECOND), rest.cast(pa.int64()))


def _micros_of_texts(values: Sequence[Any] | pa.Array) -> pa.Array:
    """Parses texts with Arrow if all texts or no texts have a zone. Otherwise Python parses each text."""
    try:
        texts = values if isinstance(values, pa.Array) else pa.array(values, pa.string())
    except UnicodeEncodeError:
        return _micros_of_texts([text if text is None or text.isascii() else "" for text in values])
    with suppress(pa.ArrowInvalid):
        return parse_times(texts, ZONED, UNZONED).cast(pa.int64())
    matches = zip(texts.to_pylist(), pc.match_substring_regex(texts, TIME_OR_NUMBER).to_pylist(), strict=True)
    return _micros([time_or_number(text) if is_match else None for text, is_match in matches])


def _micros_of_datetimes(values: Sequence[Any]) -> pa.Array:
    try:
        return pa.array(values, ZONED).cast(pa.int64())
    except ValueError:  # a time zone without an offset, such as in NaT of pandas
        if len(values) == 1:
            return pa.nulls(1, pa.int64())
        return pa.concat_arrays([_micros_of_datetimes([value]) for value in values])


def _reason(value: Any) -> Reason:
    converter = _converter(type(value))
    if converter is _micros_of_texts and converter([value]).null_count:
        return about(value, " is no timestamp such as 2024-01-15T12:00:00Z or 1705320000")
    is_number = type(value) is OutOfRange or converter in (_micros_of_integers, _micros_of_floats)
    if not is_number and converter([value]).null_count:
        cause = f"a {type(value).__name__} is no timestamp"
    elif converter is _micros_of_floats and not math.isfinite(value):
        cause = "not a finite number"
    else:
        cause = "outside the years 1 to 9999"
    return about(value, f" is no usable timestamp: {cause}", show=_quoted)


def _quoted(value: Any) -> str:
    """Returns the value in quotes. For a number with too many digits for Python, it returns the size."""
    try:
        return shown(str(value))
    except ValueError:
        return shown(value)
