"""Converts scalar values to their natural type, or to another type without loss. Lists and structs are not scalars."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import Context, Decimal, InvalidOperation
from numbers import Integral
from typing import Any

import pyarrow as pa

from app.table.type_names import MAX_DIGITS
from app.time_texts import moment_of

DECIMAL = pa.decimal128(MAX_DIGITS, 18)
ZONED = pa.timestamp("us", "UTC")
UNZONED = pa.timestamp("us")
_INT_BITS = {pa.int32(): 31, pa.int64(): 63}
_EPOCH = datetime(1970, 1, 1)
_NANOSECONDS = 1000  # nanoseconds in a microsecond
_DAY_LENGTH = len("2024-01-15")

Stored = tuple[Any, pa.DataType]


@Integral.register
@dataclass(frozen=True, slots=True)
class OutOfRange:
    """A number outside the range of its type, such as a day after the year 9999. No column can store this number."""

    number: int

    def __index__(self) -> int:
        return self.number

    def __repr__(self) -> str:
        return str(self.number)


def moment_at(number: int, micros: int = 1, zone: tzinfo | None = UTC) -> datetime | OutOfRange:
    """Returns the moment ``number * micros`` microseconds after 1970; ``OutOfRange`` outside the years 1 to 9999."""
    try:
        return (_EPOCH + timedelta(microseconds=number * micros)).replace(tzinfo=zone)
    except OverflowError:
        return OutOfRange(number)


def is_unicode(text: Any) -> bool:
    """Whether this is text that UTF-8 can encode. UTF-8 cannot encode half of a surrogate pair."""
    try:
        text.encode()
    except (UnicodeEncodeError, AttributeError):
        return False
    return True


def to_python(value: Any) -> Any:
    """Converts a value of Arrow or NumPy to a value of Python. Other values are returned unchanged."""
    if value is None or type(value) in _COMMON:
        return value
    if isinstance(value, pa.Scalar):
        return _python_of_arrow(value)
    if hasattr(value, "dtype"):  # a NumPy value; the check does not import NumPy
        if getattr(value, "ndim", 0):
            return [to_python(item) for item in value]
        return _python_of_arrow(pa.scalar(value)) if value.dtype.kind in "biufUSM" else value
    return value


_COMMON = frozenset({str, int, float, bool, dict, list, bytes})


def _python_of_arrow(scalar: pa.Scalar) -> Any:
    if pa.types.is_timestamp(scalar.type) and scalar.type.unit == "ns" and scalar.is_valid:
        if scalar.value % _NANOSECONDS:
            return scalar  # columns cannot store nanoseconds
        scalar = scalar.cast(pa.timestamp("us", scalar.type.tz))
    return scalar.as_py()


def scalar_type(value: Any) -> pa.DataType | None:
    """Returns the type of a new column whose first value is this value; ``None`` if no column can store the value."""
    for kinds, natural in _NATURAL:
        if isinstance(value, kinds):
            return natural(value)
    return None


def coerce_scalar(value: Any, kind: pa.DataType | None, *, fixed: bool, widens: bool = True) -> Stored | None:
    """Returns the value as a column of this type stores it, and the column's new type; ``None`` if it does not fit."""
    natural = scalar_type(value)
    if kind is None:
        return None if natural is None else (_stored(value), natural)
    if natural == kind and not pa.types.is_decimal(kind):
        return _stored(value), kind
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return _fit_number(value, kind, fixed=fixed, widens=widens)
    if pa.types.is_decimal(kind) and isinstance(value, Decimal):
        return _to_decimal(value, kind)
    if fixed and isinstance(value, str):
        moment = _moment(value, kind)
        return None if moment is None else (moment, kind)
    return None


def _fit_number(value: float, kind: pa.DataType, *, fixed: bool, widens: bool) -> Stored | None:
    if kind == pa.float64():
        whole = isinstance(value, int)
        return (float(value), kind) if not whole or (is_within(value, pa.int64()) and float(value) == value) else None
    if pa.types.is_decimal(kind):
        if isinstance(value, float):
            return _to_decimal(Decimal(repr(value)), kind) if fixed else None
        return _to_decimal(Decimal(value), kind)
    if kind not in _INT_BITS:
        return None
    if is_whole(value) and is_within(value, kind):
        return int(value), kind
    becomes_double = isinstance(value, float) and kind == pa.int64() and widens and not fixed
    return (value, pa.float64()) if becomes_double else None


def is_whole(value: float) -> bool:
    """Whether this number can become an integer without loss. The number -0.0 would lose its sign."""
    if isinstance(value, int):
        return True
    return value.is_integer() and not (value == 0 and math.copysign(1, value) < 0)


def is_within(value: float, kind: pa.DataType) -> bool:
    bits = _INT_BITS[kind]
    return bool(-(2**bits) <= value < 2**bits)


def _to_decimal(value: Decimal, kind: pa.DataType) -> Stored | None:
    """Converts a number to a decimal type; ``None`` if the number has more digits than the type."""
    if not value.is_finite() or (value == 0 and value.is_signed()):
        return None
    try:
        exact = value.quantize(Decimal((0, (1,), -kind.scale)), context=Context(prec=kind.precision))
    except InvalidOperation:
        return None
    return (exact, kind) if exact == value else None


def _moment(text: str, kind: pa.DataType) -> date | datetime | None:
    """Parses a text for a column that the user has set to date or timestamp. A text without a zone is in UTC."""
    try:
        moment = moment_of(text, exactly=True)
        if kind == ZONED:
            return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None
    if kind == UNZONED:
        return None if moment.tzinfo else moment
    return moment.date() if kind == pa.date32() and len(text) == _DAY_LENGTH else None


def _stored(value: Any) -> Any:
    if isinstance(value, time):
        return value.isoformat()  # Spark writes no time of day to Parquet
    return bytes(value) if isinstance(value, bytearray | memoryview) else value


def _type_of_moment(value: datetime) -> pa.DataType | None:
    if getattr(value, "nanosecond", 0):  # a pandas timestamp
        return None
    if value.tzinfo is None:
        return UNZONED
    try:
        value.astimezone(UTC)
    except OverflowError:  # in the last hours of the year 9999, or the first of the year 1
        return None
    return ZONED


_NATURAL: tuple[tuple[Any, Callable[[Any], pa.DataType | None]], ...] = (
    (bool, lambda _: pa.bool_()),
    (int, lambda value: pa.int64() if is_within(value, pa.int64()) else None),
    (float, lambda _: pa.float64()),
    (str, lambda value: pa.string() if is_unicode(value) else None),
    ((bytes, bytearray, memoryview), lambda _: pa.binary()),
    (datetime, _type_of_moment),
    (date, lambda _: pa.date32()),
    (time, lambda _: pa.string()),
    (Decimal, lambda value: DECIMAL if _to_decimal(value, DECIMAL) else None),
)
