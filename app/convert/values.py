"""Converts one value to the type of its column: returns the stored value, the type as it grows, and the misfits.

This is the slow way, value by value in the order of the rows. It is for columns whose values differ in kind, and for
new nested columns. ``app.convert.columns`` has the fast way, with the same result.
"""

import math
from collections.abc import Container, Mapping
from dataclasses import dataclass
from datetime import date, time
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa

from app.convert.scalars import coerce_scalar, to_python
from app.lenient_json import to_json
from app.reasons import Reason, about, shown
from app.table.type_names import parts, scalar_count, type_name

MAX_DEPTH = 32  # levels of lists and structs; pyarrow reads no more than 100 of Parquet, where each list has two
MAX_SCALARS = 5_000  # of the table: 5,000 columns take Spark 5 s per batch
MAX_NEW_SCALARS = 1_000  # in one batch: a wide table begins at once, and one record with ids for names does not fill it
MAX_LISTS = 12  # levels of lists in new columns: from there on each level doubles what DuckDB takes
_ICEBERGS_OWN = frozenset(
    {"_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number"}
)
LONGEST_NAME = 255  # bytes of a new field's name: what catalogs and warehouses take
_MOST_CELLS = 16 * 2**20  # elements of one list by the fields that each of them has: 8 bytes each
_FEW_ELEMENTS = 1_000
_IN_LIST = " (element of a list)"
FULL = "has no place: no more fields can be added"


@dataclass(slots=True)
class Growth:
    """How a table may still grow.

    Attributes:
        left: how many scalar fields, at whatever depth, may still be added; counts them down.
        is_iceberg: whether names must have no dot, as Iceberg reads them as paths.
        widens: whether ``bigint`` may become ``double``.
    """

    left: float
    is_iceberg: bool = False
    widens: bool = True

    @property
    def is_full(self) -> bool:
        return self.left < 1


UNBOUNDED = Growth(math.inf)


class Misfit(NamedTuple):
    """A value that its column cannot store, or only those fields of a struct; and the reason."""

    value: Any
    reason: Reason


@dataclass(frozen=True, slots=True)
class Rescue:
    """The rescued values of one column in a batch: their number, and the first one with its reason."""

    count: int
    example: Reason


class Fit(NamedTuple):
    """A value as its column stores it, the column's type from now on, and the part that does not fit."""

    stored: Any
    kind: pa.DataType | None
    misfit: Misfit | None = None


def fit(
    value: Any,
    kind: pa.DataType | None,
    *,
    fixed: bool,
    growth: Growth = UNBOUNDED,
    depth: int = 1,
    lists: int = 0,
) -> Fit:
    """Fits a value into a column, whose type ``kind`` is ``None`` until a value has decided it.

    A type that the user has ``fixed`` takes more values, and never grows. ``depth`` is 1 for a column, one more for
    every level below, and ``lists`` says how many of the levels around it are lists.
    """
    value = to_python(value)
    if value is None:
        return Fit(None, kind)
    if fixed and kind == pa.string() and not isinstance(value, str):
        return _fit_text(value)
    if isinstance(value, Mapping):
        return _fit_struct(value, kind, fixed=fixed, growth=growth, depth=depth, lists=lists)
    if isinstance(value, list | tuple | set | frozenset):
        return _fit_list(value, kind, fixed=fixed, growth=growth, depth=depth, lists=lists)
    found = coerce_scalar(value, kind, fixed=fixed, widens=growth.widens)
    if found is None:
        return _refused(value, kind)
    if kind is None:
        if growth.is_full:
            return _refused(value, kind, FULL)
        growth.left -= 1
    stored, wider = found
    return Fit(stored, wider)


def is_empty(value: Any) -> bool:
    """Whether a value means null: ``{}`` does, and a struct without any value."""
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, Mapping):
            left.extend(each.values())
        elif each is not None:
            return False
    return True


def _refused(value: Any, kind: pa.DataType | None, why: str = "") -> Fit:
    if not why:
        why = f"in a {type_name(kind)} column" if kind is not None else "fits no type of column"
    return Fit(None, kind, Misfit(value, about(value, f" {why}")))


def _fit_text(value: Any) -> Fit:
    """Fits a value into a column that the user has set to text: as JSON, or as plain text if JSON has no such type."""
    is_plain = isinstance(value, date | time | Decimal)
    text = str(value) if isinstance(value, Decimal) else value.isoformat() if is_plain else to_json(value)
    return Fit(text, pa.string())


class _Fields(NamedTuple):
    """The fields of a struct by name, and their names in lower case."""

    kinds: dict[str, pa.DataType]
    folded: set[str]


_NONE = _Fields({}, set())
_MOST_KNOWN = 256
_known: dict[int, tuple[pa.DataType, _Fields]] = {}  # by identity: comparing types takes as long as reading them


def _fields_of(kind: pa.DataType | None) -> _Fields:
    if kind is None:
        return _NONE
    found = _known.get(id(kind))
    if found is None or found[0] is not kind:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        fields = _Fields({field.name: field.type for field in kind}, {field.name.lower() for field in kind})
        _known[id(kind)] = found = kind, fields
    return found[1]


def _fit_struct(
    value: Mapping[Any, Any], kind: pa.DataType | None, *, fixed: bool, growth: Growth, depth: int, lists: int
) -> Fit:
    if not value:
        return Fit(None, kind)
    if kind is not None and not pa.types.is_struct(kind):
        return Fit(None, kind) if is_empty(value) else _refused(value, kind)
    if depth > MAX_DEPTH:
        return _refused(value, kind, f"is nested deeper than {MAX_DEPTH} levels")
    if not all(isinstance(name, str) for name in value):
        return _refused(value, kind, "has field names that are not text")
    known = _fields_of(kind)
    fields = known
    stored, left_over, reason = {}, {}, Reason("")
    for name, each in value.items():
        inner = _fit_field(name, each, fields, fixed=fixed, growth=growth, depth=depth, lists=lists)
        if inner.stored is not None:
            stored[name] = inner.stored
        if inner.misfit is not None:
            left_over[name] = inner.misfit.value
            reason = reason or inner.misfit.reason.also(f" (field {shown(name)})")
        if inner.kind is not None and inner.kind is not fields.kinds.get(name):
            if fields is known:
                fields = _Fields(dict(known.kinds), set(known.folded))
            fields.kinds[name] = inner.kind
            fields.folded.add(name.lower())
    grown = kind if fields is known else pa.struct(list(fields.kinds.items()))
    # A struct without any value and one that is null are the same, for {} has no other form in Parquet.
    return Fit(stored or None, grown, Misfit(left_over, reason) if left_over else None)


def _fit_field(name: str, value: Any, fields: _Fields, *, fixed: bool, growth: Growth, depth: int, lists: int) -> Fit:
    kind = fields.kinds.get(name)
    if kind is None:
        refusal = refusal_of_name(name, fields.folded, full=fixed, is_iceberg=growth.is_iceberg)
        if refusal is not None:
            return Fit(None, None) if is_empty(value) else Fit(None, None, Misfit(value, about(value, f" {refusal}")))
    return fit(value, kind, fixed=fixed, growth=growth, depth=depth + 1, lists=lists)


def refusal_of_name(name: str, folded: Container[str], *, full: bool = False, is_iceberg: bool = False) -> str | None:
    """Returns why no field of this name can be added to those whose names in lower case are ``folded``."""
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return "has a name that is not Unicode"
    if size > LONGEST_NAME:
        return f"has a name of {size:,} bytes, and {LONGEST_NAME} are the most"
    if not name:
        return "has an empty name"  # DuckDB calls it C0, which another one may be called
    if "\0" in name:
        return "has a name with the character NUL"  # where Polars takes a table over from others, a name ends there
    if is_iceberg and "." in name:
        return "has a name with a dot, which Iceberg reads as a path"
    if is_iceberg and name.lower() in _ICEBERGS_OWN:
        return "has a name that Iceberg reserves"
    if name.lower() in folded:
        return "has a name that differs only in case from another one"
    return FULL if full else None


def _fit_list(value: Any, kind: pa.DataType | None, *, fixed: bool, growth: Growth, depth: int, lists: int) -> Fit:
    """Stores a list whole or not at all; its type grows only with lists that are stored."""
    elements = list(value)
    if kind is not None and not pa.types.is_list(kind):
        return _refused(elements, kind)
    if depth > MAX_DEPTH:
        return _refused(elements, kind, f"is nested deeper than {MAX_DEPTH} levels")
    if kind is None and lists >= MAX_LISTS:
        return _refused(elements, kind, f"has more than {MAX_LISTS} levels of lists")
    before = kind.value_type if kind is not None else None
    growth_before = growth.left
    after, fits = before, []
    for each in elements:
        fits.append(fit(each, after, fixed=fixed, growth=growth, depth=depth + 1, lists=lists + 1))
        after = fits[-1].kind
    # Again only for elements that came before the type was complete: else each level would double the work.
    fits = [
        one
        if after is None or one.kind is after or one.kind == after
        else fit(each, after, fixed=fixed, growth=Growth(0, widens=growth.widens), depth=depth + 1, lists=lists + 1)
        for each, one in zip(elements, fits, strict=True)
    ]
    misfit = next((each.misfit for each in fits if each.misfit is not None), None)
    if misfit is not None:
        growth.left = growth_before
        reason = misfit.reason if misfit.reason.endswith(_IN_LIST) else misfit.reason.also(_IN_LIST)
        return Fit(None, kind, Misfit(elements, reason))
    if after is None:
        return _refused(elements, kind, "in a column of lists whose elements have no type yet")
    if len(elements) > _FEW_ELEMENTS and len(elements) * scalar_count(after) > _MOST_CELLS:
        growth.left = growth_before
        return _refused(elements, kind, f"has {len(elements):,} elements with {scalar_count(after):,} fields each")
    grown = kind if after is before else pa.list_(after)
    return Fit([each.stored for each in fits], grown)


def coerce_column(values: list[Any], kind: pa.DataType | None, *, fixed: bool, growth: Growth = UNBOUNDED) -> "Column":
    """Fits all values of a column, in the order of the rows."""
    final = kind
    stored: list[Any] = []
    misfits: dict[int, Misfit] = {}
    typed: int | None = None
    for row, value in enumerate(values):
        if value is None:
            stored.append(None)
            continue
        one = fit(value, final, fixed=fixed, growth=growth)
        if one.misfit is not None:
            misfits[row] = one.misfit
        if typed is None and one.kind is not None:
            typed = row
        final = one.kind
        stored.append(one.stored)
    if final is None:
        return Column(None, None, misfits, typed)
    if typed is not None and _has_doubles(final):
        stored = _coerce_stored(stored, final, misfits)
    return Column(pa.array(stored, final), final, misfits, typed)


class Column(NamedTuple):
    """The values, type and misfits (by row) of a column of a batch.

    ``array`` has the type ``kind``; both are ``None`` if no value has a type. ``typed`` is the first row that has the
    type, ``None`` if there is none.
    """

    array: pa.Array | None
    kind: pa.DataType | None
    misfits: dict[int, Misfit]
    typed: int | None


def _coerce_stored(stored: list[Any], kind: pa.DataType, misfits: dict[int, Misfit]) -> list[Any]:
    """Fits again after a column became double: whole numbers before may have more digits than a double."""
    coerced = []
    for row, value in enumerate(stored):
        one = fit(value, kind, fixed=False)
        if one.misfit is not None:
            before = misfits.get(row)
            left_over = joined(before.value, one.misfit.value) if before else one.misfit.value
            misfits[row] = Misfit(left_over, one.misfit.reason)
        coerced.append(one.stored)
    return coerced


def _has_doubles(kind: pa.DataType) -> bool:
    return pa.types.is_floating(kind) or any(map(_has_doubles, parts(kind)))


def joined(first: Any, second: Any) -> Any:
    """Joins the parts of one value that were rescued in two steps; for a struct, their fields."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        both = dict(first)
        for name, value in second.items():
            both[name] = joined(both[name], value) if name in both else value
        return both
    return second
