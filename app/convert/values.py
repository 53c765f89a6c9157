"""Fits values into a column one by one, in the order of the rows. Each value may extend the column's type.

Columns with values of several types, and new nested columns, need this module. ``app.convert.columns`` is faster, and
returns the same result.
"""

import math
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from datetime import date, time
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

from app.convert.bounds import LONGEST_NAME, MAX_DEPTH, MAX_LISTS
from app.convert.scalars import coerce_scalar, is_unicode, to_python
from app.json_texts import to_json
from app.model import Pairs
from app.reason_texts import Reason, about, shown
from app.table.type_names import contains, parts, scalar_count, type_name

FEW_CELLS, _CELLS_OF_A_VALUE = 2**16, 64  # cells of a list (elements multiplied by fields of an element): 8 bytes each
_IN_LIST = " (element of a list)"
FULL = "cannot be stored: no more fields can be added"
CASE = "has a name that differs only in case from another name"

RefuseName = Callable[[str], str | None]


@dataclass(slots=True)
class Growth:
    """The limits for new fields in a table.

    Attributes:
        free: Number of scalar fields that may still be added, at any depth.
        refuse: Function that returns why the catalog refuses a field of this name, or ``None``.
        widens: Whether the type of a column may change from ``bigint`` to ``double``.
    """

    free: float
    refuse: RefuseName = lambda _: None
    widens: bool = True

    @property
    def is_full(self) -> bool:
        return self.free < 1


UNBOUNDED = Growth(math.inf)


class Misfit(NamedTuple):
    """A value that its column cannot store, and the reason. For a struct, ``value`` has only fields that do not fit."""

    value: Any
    reason: Reason


@dataclass(frozen=True, slots=True)
class Rescue:
    """The number of one column's rescued values in a batch, and the reason for the first rescued value."""

    count: int
    example: Reason


class Growing:
    """The type of a column or of a nested field, while values are fitted.

    Each new field changes this object. A copy of the type for each new field would be slow.
    """

    __slots__ = ("_fields", "_name", "folded", "is_map", "items", "kind", "width")

    def __init__(self, kind: pa.DataType | None = None) -> None:
        self.kind = kind  # ``None`` until a value decides the type
        self.is_map = kind is not None and pa.types.is_map(kind)
        self.items = Growing(parts(kind)[-1]) if self.is_map or (kind and pa.types.is_list(kind)) else None
        self.width = 0 if self.items is None else scalar_count(kind)  # scalar fields of each list element or pair
        self.folded: set[str] = set()  # the names of the fields in lower case
        self._fields: dict[str, Growing] | None = None
        self._name = ""

    @property
    def fields(self) -> dict[str, "Growing"]:
        if self._fields is None:
            self._fields = {field.name: Growing(field.type) for field in self.kind or ()}
            self.folded.update(map(str.lower, self._fields))
        return self._fields

    @property
    def is_struct(self) -> bool:
        return bool(self._fields) or (self.kind is not None and pa.types.is_struct(self.kind))

    @property
    def is_decided(self) -> bool:
        return bool(self.kind is not None or self._fields or self.items)

    @property
    def name(self) -> str:
        """The name of the type at the first call. The name is kept, because the name of a wide type is long."""
        self._name = self._name or type_name(self.type())
        return self._name

    def type(self) -> pa.DataType | None:
        if self.items is not None:
            return pa.map_(pa.string(), self.items.type()) if self.is_map else pa.list_(self.items.type())
        if self._fields:
            return pa.struct([(name, field.type()) for name, field in self._fields.items()])
        return self.kind


Fit = tuple[Any, Misfit | None]
"""The stored form of a value, and the part of the value that does not fit."""


class _Fitter:
    """Fits values into a column, and extends the column's type.

    If the user has set the type (``fixed``), the column accepts more values, and the type never changes.
    """

    def __init__(self, growth: Growth, *, fixed: bool) -> None:
        self._growth = growth
        self._fixed = fixed
        self._undo: list[Callable[[], object]] = []  # functions that undo changes of types, in the order of the changes
        self._added = 0  # scalar fields
        self._is_complete = False  # whether no field may be added
        self._changes = 0  # number of changes of types; earlier values may then fit differently: see ``_fit_elements``

    def fit(self, value: Any, kind: Growing, depth: int = 1, lists: int = 0) -> Fit:
        """Fits a value into a column or into a nested field.

        ``depth`` is 1 for a column, and increases by 1 for each level. ``lists`` is the number of lists that contain
        the value.
        """
        value = to_python(value)
        if value is None:
            return None, None
        if self._fixed and kind.kind == pa.string() and not isinstance(value, str):
            return _text(value), None
        if isinstance(value, Mapping):
            is_map = kind.is_map or (isinstance(value, Pairs) and not kind.is_decided)
            return (self._fit_items if is_map else self._fit_struct)(value, kind, depth, lists)
        if isinstance(value, list | tuple | set | frozenset):
            return self._fit_items(list(value), kind, depth, lists)
        return _refused(value, kind) if kind.items or kind.is_struct else self._fit_scalar(value, kind)

    def _fit_scalar(self, value: Any, kind: Growing) -> Fit:
        scalar = coerce_scalar(value, kind.kind, fixed=self._fixed, widens=self._growth.widens)
        if scalar is None:
            return _refused(value, kind)
        stored, after = scalar
        if kind.kind is None:
            if self._growth.is_full or self._is_complete:
                return _refused(value, kind, FULL)
            self._growth.free -= 1
            self._added += 1
        elif after is not kind.kind and after != kind.kind:
            self._changes += 1
        if after is not kind.kind:
            self._undo.append(partial(setattr, kind, "kind", kind.kind))
            kind.kind = after
        return stored, None

    def _fit_struct(self, value: Mapping[Any, Any], kind: Growing, depth: int, lists: int) -> Fit:
        if not value:
            return None, None
        if kind.is_decided and not kind.is_struct:
            return (None, None) if is_empty(value) else _refused(value, kind)
        if depth > MAX_DEPTH:
            return _refused(value, kind, f"is nested deeper than {MAX_DEPTH} levels")
        if not all(isinstance(name, str) for name in value):
            return _refused(value, kind, "has field names that are not text")
        # A struct without any value is stored as null, because Parquet cannot store {}.
        stored, misfit = self._fit_fields(value, kind, depth + 1, lists, is_map=False)
        return stored or None, misfit

    def _fit_fields(self, value: Any, kind: Growing, depth: int, lists: int, *, is_map: bool = True) -> Fit:
        """Fits the pairs of a map whose values have the type ``kind``, or the fields of a struct of this type."""
        stored, leftover, reason = Pairs() if is_map else {}, {}, Reason("")
        for name, item in value.items():
            field = kind if is_map else kind.fields.get(name)
            if field is not None:
                inner, misfit = self.fit(item, field, depth, lists)
            else:
                inner, misfit = self._fit_new(name, item, kind, depth, lists)
            if inner is not None or (is_map and misfit is None):
                stored[name] = inner
            if misfit is not None:
                leftover[name] = misfit.value
                reason = reason or misfit.reason.also(f" (field {shown(name)})")
        return stored, Misfit(leftover, reason) if leftover else None

    def _fit_new(self, name: str, value: Any, kind: Growing, depth: int, lists: int) -> Fit:
        """Fits a value whose field is not in the struct yet. Adds the field if the value decides the field's type."""
        refusal = refusal_of_name(name, kind.folded, self._growth.refuse, full=self._fixed)
        if refusal is not None:
            return None, None if is_empty(value) else Misfit(value, about(value, f" {refusal}"))
        field = Growing()
        fitted = self.fit(value, field, depth, lists)
        if field.is_decided:
            kind.fields[name] = field
            kind.folded.add(name.lower())
            self._undo += [partial(kind.fields.pop, name), partial(kind.folded.discard, name.lower())]
        return fitted

    def _fit_items(self, value: Any, kind: Growing, depth: int, lists: int) -> Fit:
        """Fits a map, or all elements of a list or none. Only stored values change the type of the column."""
        is_new, is_map = not kind.is_decided, isinstance(value, Mapping)
        if not is_new and (kind.items is None or kind.is_map != is_map):
            return _refused(value, kind)
        if is_map and not all(map(is_unicode, value)):
            return _refused(value, kind, "has keys that are not Unicode text")
        if depth > MAX_DEPTH:
            return _refused(value, kind, f"is nested deeper than {MAX_DEPTH} levels")
        if is_new and lists >= MAX_LISTS and not is_empty(value):
            return _refused(value, kind, f"has more than {MAX_LISTS} levels of lists")
        items, keys = kind.items or Growing(), int(is_new and is_map)  # the keys are a column too
        free, added, undo = self._growth.free, self._added, len(self._undo)
        self._growth.free -= keys
        self._added += keys
        stored, misfit = (self._fit_fields if is_map else self._fit_elements)(value, items, depth + 1, lists + 1)
        width = kind.width + self._added - added
        reason: Reason | None = None
        if misfit is not None and not is_map:
            reason = misfit.reason if misfit.reason.endswith(_IN_LIST) else misfit.reason.also(_IN_LIST)
        elif items.is_decided and is_sparse_list(len(value) * width, lambda: _filled(stored)):
            reason = about(value, f" has {len(value):,} elements with {width:,} fields each, nearly all empty")
        elif items.is_decided:
            self._undo.append(partial(setattr, kind, "width", kind.width))
            kind.width = width
            if is_new:
                self._undo += [partial(setattr, kind, "items", None), partial(setattr, kind, "is_map", False)]
                kind.items, kind.is_map = items, is_map
                self._changes += 1
            return stored if stored or misfit is None else None, misfit
        while len(self._undo) > undo:
            self._undo.pop()()
        self._growth.free, self._added = free, added
        return None, misfit if reason is None else Misfit(value, reason)  # without any value, a new column stays null

    def _fit_elements(self, elements: list[Any], items: Growing, *levels: int) -> tuple[list[Any], Misfit | None]:
        """Fits the elements of a list into a type with the fields of all elements. Also returns the first misfit."""
        fits: list[Fit] = []
        last = 0
        for index, element in enumerate(elements):
            changes = self._changes
            fits.append(self.fit(element, items, *levels))
            last = last if self._changes == changes else index
        was_complete, self._is_complete = self._is_complete, True
        # Elements after the type's last change fit already. Fitting all elements again would double the work per level.
        fits[:last] = [self.fit(element, items, *levels) for element in elements[:last]]
        self._is_complete = was_complete
        return [stored for stored, _ in fits], next((misfit for _, misfit in fits if misfit is not None), None)


def is_sparse_list(cells: int, filled: Callable[[], int]) -> bool:
    """Whether too many cells of a list are empty. Each element has a cell for each field of the list's type."""
    return cells > FEW_CELLS and cells > _CELLS_OF_A_VALUE * filled()


def _filled(value: Any) -> int:
    if isinstance(value, dict):
        return sum(map(_filled, value.values())) + len(value) * isinstance(value, Pairs)
    return sum(map(_filled, value)) if isinstance(value, list) else value is not None


def is_empty(value: Any) -> bool:
    """Whether a value means null in a column that does not exist: objects and lists without any value."""
    unchecked = [value]
    while unchecked:
        item = unchecked.pop()
        if isinstance(item, Mapping):
            unchecked.extend(item.values())
        elif isinstance(item, list | tuple | set | frozenset):
            unchecked.extend(item)
        elif item is not None:
            return False
    return True


def _refused(value: Any, kind: Growing, why: str = "") -> Fit:
    if not why:
        why = f"in a {kind.name} column" if kind.is_decided else "does not fit any type of column"
    return None, Misfit(value, about(value, f" {why}"))


def _text(value: Any) -> str:
    """Converts a value for a column that the user has set to text: to JSON, or plain text for decimals and times."""
    if isinstance(value, Decimal):
        return str(value)
    return value.isoformat() if isinstance(value, date | time) else to_json(value)


def refusal_of_name(name: str, folded: Container[str], refuse: RefuseName, *, full: bool = False) -> str | None:
    """Returns why a field of this name cannot be added. ``folded`` contains the names of all fields in lower case."""
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return "has a name that is not Unicode"
    if size > LONGEST_NAME:
        return f"has a name of {size:,} bytes, and {LONGEST_NAME} are the most"
    if not name:
        return "has an empty name"  # DuckDB names this column C0, and another column may be named C0
    if "\0" in name:
        return "has a name with the character NUL"  # Polars ends a name at NUL when Polars imports a table
    if refusal := refuse(name):
        return refusal
    if name.lower() in folded:
        return CASE
    return FULL if full else None


def coerce_column(values: list[Any], kind: pa.DataType | None, *, fixed: bool, growth: Growth = UNBOUNDED) -> "Column":
    """Converts the values of a column to one type, which each value may extend. Other values become misfits."""
    final, fitter = Growing(kind), _Fitter(growth, fixed=fixed)
    stored: list[Any] = []
    misfits: dict[int, Misfit] = {}
    typed: int | None = None
    for row, value in enumerate(values):
        if value is None:
            stored.append(None)
            continue
        fitted, misfit = fitter.fit(value, final)
        if misfit is not None:
            misfits[row] = misfit
        if typed is None and final.is_decided:
            typed = row
        stored.append(fitted)
    grown = final.type()
    if grown is None:
        return Column(None, None, misfits, typed)
    if typed is not None and contains(grown, pa.types.is_floating):
        stored = _coerce_stored(stored, grown, misfits)
    return Column(pa.array(stored, grown), grown, misfits, typed)


class Column(NamedTuple):
    """One column of a batch: values, type, and misfits by row.

    ``array`` has the type ``kind``. If no value has a type, ``array`` and ``kind`` are ``None``. ``typed`` is the first
    row whose value has a type, or ``None``.
    """

    array: pa.Array | None
    kind: pa.DataType | None
    misfits: dict[int, Misfit]
    typed: int | None


def _coerce_stored(stored: list[Any], kind: pa.DataType, misfits: dict[int, Misfit]) -> list[Any]:
    """Fits values again after a column became double, because earlier integers may have too many digits."""
    coerced, fitter, final = [], _Fitter(UNBOUNDED, fixed=False), Growing(kind)
    for row, value in enumerate(stored):
        fitted, misfit = fitter.fit(value, final)
        if misfit is not None:
            before = misfits.get(row)
            misfits[row] = misfit._replace(value=joined(before.value, misfit.value)) if before else misfit
        coerced.append(fitted)
    return coerced


def joined(first: Any, second: Any) -> Any:
    """Joins two rescued parts of a value. Two parts of a struct become one struct."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        both = dict(first)
        for name, value in second.items():
            both[name] = joined(both[name], value) if name in both else value
        return both
    return second
