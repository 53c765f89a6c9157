"""One value and the type of its column: what is stored, how the type grows, and what fits nowhere.

This is the slow way, value by value in the order of the rows, for columns whose values differ in kind or are new and
nested. ``app.columns`` has the fast way, which comes to the same.
"""

from collections.abc import Mapping
from datetime import date, time
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa

from app.leaves import fit_leaf, to_python
from app.lenient_json import to_json
from app.rescue import joined, shown
from app.type_names import type_name

MAX_DEPTH = 32  # levels of lists and structs; pyarrow reads no more than 100 of Parquet, where each list has two
MAX_FIELDS = 5_000  # of the table, and of one struct: 5,000 columns take Spark 5 s per batch


class Misfit(NamedTuple):
    """What fits nowhere: the value itself, or of a struct only the fields concerned; and why."""

    value: Any
    reason: str


class Fit(NamedTuple):
    """A value as its column stores it, the type of the column from now on, and what was left over."""

    stored: Any
    kind: pa.DataType | None
    misfit: Misfit | None = None


def fit(value: Any, kind: pa.DataType | None, *, fixed: bool, depth: int = 1) -> Fit:
    """Fit a value into a column.

    Args:
        value: as it came.
        kind: the column's type; ``None`` as long as no value has shown it.
        fixed: whether the type was given by the user: it takes more, and never grows.
        depth: 1 for a column, one more for every level below.
    """
    value = to_python(value)
    if value is None:
        return Fit(None, kind)
    if fixed and kind == pa.string() and not isinstance(value, str):
        return _fit_text(value)
    if isinstance(value, Mapping):
        return _fit_struct(value, kind, fixed=fixed, depth=depth)
    if isinstance(value, list | tuple | set | frozenset):
        return _fit_list(value, kind, fixed=fixed, depth=depth)
    found = fit_leaf(value, kind, fixed=fixed)
    if found is None:
        return _refused(value, kind)
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
    return Fit(None, kind, Misfit(value, f"{shown(value)} {why}"))


def _fit_text(value: Any) -> Fit:
    """A column fixed to text takes all: what JSON has no form for, as plain text."""
    is_plain = isinstance(value, date | time | Decimal)
    text = str(value) if isinstance(value, Decimal) else value.isoformat() if is_plain else to_json(value)
    return Fit(text, pa.string())


def _fit_struct(value: Mapping[Any, Any], kind: pa.DataType | None, *, fixed: bool, depth: int) -> Fit:
    if not value:
        return Fit(None, kind)
    if kind is not None and not pa.types.is_struct(kind):
        return Fit(None, kind) if is_empty(value) else _refused(value, kind)
    if depth > MAX_DEPTH:
        return _refused(value, kind, f"is nested deeper than {MAX_DEPTH} levels")
    if not all(isinstance(name, str) for name in value):
        return _refused(value, kind, "has field names that are not text")
    kinds: dict[str, pa.DataType] = {} if kind is None else {field.name: field.type for field in kind}
    folded = {name.lower() for name in kinds}
    stored, left_over, reason = {}, {}, ""
    for name, each in value.items():
        inner = _fit_field(name, each, kinds, folded, fixed=fixed, depth=depth)
        if inner.stored is not None:
            stored[name] = inner.stored
        if inner.misfit is not None:
            left_over[name] = inner.misfit.value
            reason = reason or f"{inner.misfit.reason} (field {name!r})"
        if inner.kind is not None:
            kinds[name] = inner.kind
            folded.add(name.lower())
    grown = pa.struct(list(kinds.items())) if kinds else None
    # A struct without any value and one that is null are the same, for {} has no other form in Parquet.
    return Fit(stored or None, grown, Misfit(left_over, reason) if left_over else None)


def _fit_field(
    name: str, value: Any, kinds: Mapping[str, pa.DataType], folded: set[str], *, fixed: bool, depth: int
) -> Fit:
    if name in kinds:
        return fit(value, kinds[name], fixed=fixed, depth=depth + 1)
    refusal = refusal_of_name(name, folded, full=fixed or len(kinds) >= MAX_FIELDS)
    inner = fit(value, None, fixed=fixed, depth=depth + 1)
    if refusal is None or (inner.kind is None and inner.misfit is None):
        return inner
    return Fit(None, None, Misfit(value, f"{shown(value)} {refusal}"))


def refusal_of_name(name: str, folded: set[str], *, full: bool) -> str | None:
    """Why no field of this name can be added to those whose names in lower case are ``folded``."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return "has a name that is not Unicode"
    if name.lower() in folded:
        return "has a name that differs only in case from another one"
    return "has no place: no more fields can be added" if full else None


def _fit_list(value: Any, kind: pa.DataType | None, *, fixed: bool, depth: int) -> Fit:
    """A list is stored whole or not at all; its type grows only with lists that are stored."""
    if kind is not None and not pa.types.is_list(kind):
        return _refused(list(value), kind)
    if depth > MAX_DEPTH:
        return _refused(list(value), kind, f"is nested deeper than {MAX_DEPTH} levels")
    elements = list(value)
    before = kind.value_type if kind is not None else None
    after, fits = before, []
    for each in elements:
        fits.append(fit(each, after, fixed=fixed, depth=depth + 1))
        after = fits[-1].kind
    if after is None:
        return _refused(elements, kind, "in a column of lists whose elements have no type yet")
    # Again only for elements that came before the type was complete: else each level would double the work.
    fits = [
        one if one.kind == after else fit(each, after, fixed=fixed, depth=depth + 1)
        for each, one in zip(elements, fits, strict=True)
    ]
    misfit = next((each.misfit for each in fits if each.misfit is not None), None)
    if misfit is not None:
        return Fit(None, kind, Misfit(elements, f"{misfit.reason} (element of a list)"))
    return Fit([each.stored for each in fits], pa.list_(after))


def fit_column(values: list[Any], kind: pa.DataType | None, *, fixed: bool) -> "Column":
    """Fit all values of a column, in the order of the rows."""
    final = kind
    stored: list[Any] = []
    misfits: dict[int, Misfit] = {}
    typed: int | None = None
    for row, value in enumerate(values):
        if value is None:
            stored.append(None)
            continue
        one = fit(value, final, fixed=fixed)
        if one.misfit is not None:
            misfits[row] = one.misfit
        if typed is None and one.kind is not None:
            typed = row
        final = one.kind
        stored.append(one.stored)
    if final is None:
        return Column(None, None, misfits, typed)
    if typed is not None and _has_doubles(final):
        stored = _refit(stored, final, misfits)
    return Column(pa.array(stored, final), final, misfits, typed)


class Column(NamedTuple):
    """A column of a batch.

    ``array`` has the type ``kind``, both ``None`` where no value has shown a type; ``misfits`` are by row; ``typed`` is
    the first row that shows the type, ``None`` where there is none.
    """

    array: pa.Array | None
    kind: pa.DataType | None
    misfits: dict[int, Misfit]
    typed: int | None


def _refit(stored: list[Any], kind: pa.DataType, misfits: dict[int, Misfit]) -> list[Any]:
    """Where a column became double, whole numbers before may have more digits than a double has."""
    refitted = []
    for row, value in enumerate(stored):
        one = fit(value, kind, fixed=False)
        if one.misfit is not None:
            before = misfits.get(row)
            left_over = joined(before.value, one.misfit.value) if before else one.misfit.value
            misfits[row] = Misfit(left_over, one.misfit.reason)
        refitted.append(one.stored)
    return refitted


def _has_doubles(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return any(_has_doubles(field.type) for field in kind)
    return _has_doubles(kind.value_type) if pa.types.is_list(kind) else bool(pa.types.is_floating(kind))
