"""Converts a complete column in C++, from the type that Arrow infers.

Arrow refuses most columns with values of several types, but not all of these columns. Among floats, Arrow converts
``True`` to 1.0. Among dates, Arrow drops the time of day of a datetime. Among datetimes without a zone, it drops zones.
Therefore this module checks the original values.
"""

import gc
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime
from functools import partial
from itertools import accumulate, chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from app.convert.bounds import DAYS, MAX_DEPTH, MICROSECONDS, MOST_CELLS
from app.convert.scalars import UNZONED, ZONED
from app.convert.values import FEW_CELLS, UNBOUNDED, Column, Growth, coerce_column, is_sparse_list
from app.model import Pairs
from app.table.type_names import contains, parts, scalar_count

Columns = Mapping[str, pa.Array]  # arrays of equal length, by column name

# Arrow raises these errors for values of several types, for numbers too large for any type, and for invalid Unicode.
CONVERSION_ERRORS = (pa.ArrowException, TypeError, ValueError, OverflowError)
CHUNK_ROWS = 4096
_NESTED = frozenset({dict, list})
_FEW_CELLS, _CELLS_OF_A_VALUE = 2**14, 16  # cells of objects: each cell needs 8 bytes, with or without a value
_PLAIN = (pa.bool_(), pa.int64(), pa.float64(), pa.string(), pa.binary(), pa.date32())


def infer(values: Sequence[Any], *, are_records: bool = False) -> pa.Array | None:
    """Returns the values as an Arrow array; ``None`` if no Arrow type fits all values, or there are too many cells."""
    kinds, inner = set(map(type, values)), _nested_kinds(values)
    if inner is None or (not kinds.isdisjoint(_NESTED) and _is_sparse(values, are_records=are_records)):
        return None
    try:
        array = (
            _build(values, lambda _, part: infer(part), is_map=Pairs in kinds) if Pairs in inner else pa.array(values)
        )
    except CONVERSION_ERRORS:
        return None
    return array if isinstance(array, pa.Array) else None


def _nested_kinds(values: Iterable[Any]) -> set[type] | None:
    """Returns the types of lists and objects; ``None`` for too many levels, as 900 levels need 250 MB in Arrow."""
    kinds: set[type] = set()
    for _ in range(MAX_DEPTH + 2):  # one level for the record, ``MAX_DEPTH`` levels for a column, and one more
        # The garbage collector does not track a dictionary that contains only numbers and texts.
        nested = list(filter(gc.is_tracked, values))
        if not nested:
            return kinds
        kinds.update(map(type, nested))
        objects = [value for value in nested if isinstance(value, dict)]
        lists = [value for value in nested if type(value) is list]
        values = chain(chain.from_iterable(map(dict.values, objects)), chain.from_iterable(lists))
    return None


def _is_sparse(values: Sequence[Any], *, are_records: bool) -> bool:
    """Whether Arrow would create too many empty cells. In Arrow, each struct has a cell for each field of all structs.

    With ``are_records``, cells of the records' own fields do not count, because columns always have these cells.
    """
    unchecked = [(values, len(values))]
    while unchecked:
        level, places = unchecked.pop()
        elements = list(chain.from_iterable(value for value in level if type(value) is list))
        if elements:
            unchecked.append((elements, len(elements)))
        objects = [value for value in level if type(value) is dict]
        names: set[Any] = set().union(*objects)
        most = _FEW_CELLS + _CELLS_OF_A_VALUE * sum(map(len, objects))
        if places * len(names) > most and not (are_records and level is values):
            return True
        nested = list(filter(gc.is_tracked, objects))
        if nested and not _NESTED.isdisjoint(map(type, chain.from_iterable(map(dict.values, nested)))):
            inner: dict[Any, list[Any]] = {}
            for name, value in chain.from_iterable(map(dict.items, nested)):
                if type(value) in _NESTED:
                    inner.setdefault(name, []).append(value)
            unchecked += [(items, places) for items in inner.values()]
    return False


def coerce_array(
    array: pa.Array | None, values: Sequence[Any], kind: pa.DataType | None, *, fixed: bool, growth: Growth = UNBOUNDED
) -> Column:
    """Fits ``values`` into a column. If the complete column does not fit, fits ``CHUNK_ROWS`` values at a time.

    ``array`` contains the values in the type that Arrow infers, or is ``None``. ``kind`` is ``None`` for a new column.
    ``fixed`` is true if the user has set the column's type.
    """
    fast = _fit_whole(array, values, kind, fixed=fixed, growth=growth)
    return fast or _fit_in_chunks(list(values), kind, fixed=fixed, growth=growth)


def _fit_in_chunks(values: list[Any], kind: pa.DataType | None, *, fixed: bool, growth: Growth) -> Column:
    """Fits values in chunks. If a complete chunk does not fit, the values of this chunk are fitted one by one."""
    if len(values) <= CHUNK_ROWS:
        return coerce_column(values, kind, fixed=fixed, growth=growth)
    free = growth.free
    parts: list[Column] = []
    final = kind
    for start in range(0, len(values), CHUNK_ROWS):
        chunk = values[start : start + CHUNK_ROWS]
        array = None if final and contains(final, pa.types.is_map) else infer(chunk)
        fast = _fit_whole(array, chunk, final, fixed=fixed, growth=growth)
        parts.append(fast or coerce_column(chunk, final, fixed=fixed, growth=growth))
        final = parts[-1].kind
    try:
        return _join(parts, final, len(values))
    except CONVERSION_ERRORS:  # the column became double, and integers have too many digits for a double
        growth.free = free
        return coerce_column(values, kind, fixed=fixed, growth=growth)


def _join(parts: list[Column], kind: pa.DataType | None, rows: int) -> Column:
    starts = range(0, rows, CHUNK_ROWS)
    placed = list(zip(starts, parts, strict=True))
    misfits = {start + row: misfit for start, part in placed for row, misfit in part.misfits.items()}
    typed = next((start + part.typed for start, part in placed if part.typed is not None), None)
    if kind is None:
        return Column(None, None, misfits, typed)
    arrays = [
        pa.nulls(min(CHUNK_ROWS, rows - start), kind) if part.array is None else recast(part.array, kind)
        for start, part in placed
    ]
    return Column(pa.concat_arrays(arrays), kind, misfits, typed)


def _fit_whole(
    array: pa.Array | None, values: Sequence[Any], kind: pa.DataType | None, *, fixed: bool, growth: Growth
) -> Column | None:
    if kind and contains(kind, pa.types.is_map) and not pa.types.is_list(kind):
        with suppress(*CONVERSION_ERRORS, KeyError):  # KeyError: a field that the struct does not have
            fit_part = partial(_fit_part, kind=kind, fixed=fixed, growth=growth)
            stored = recast(_build(values, fit_part, is_map=pa.types.is_map(kind)), kind)
            return None if has_sparse_list(stored) else Column(stored, kind, {}, None)
    if array is None:
        return None
    if pa.types.is_null(array.type):
        return Column(None, kind, {}, None)
    if not _is_plain(array.type) or (kind is None and pa.types.is_nested(array.type)) or _is_mixed(array, values):
        return None
    if fixed and contains(array.type, lambda part: pa.types.is_struct(part) and is_void(part)):
        return None  # {} becomes text if the user has set the column's type to string
    first = None
    if kind is None:
        if growth.is_full:
            return None
        first = int(pc.index(array.is_valid(), True).as_py())
        # Arrow infers double for a mixture of integers and fractions, but here the first value decides the type.
        kind = pa.int64() if pa.types.is_floating(array.type) and isinstance(values[first], int) else array.type
    try:
        stored = _recast_column(array, _canonical(kind), fixed=fixed, widens=growth.widens)
    except CONVERSION_ERRORS:
        return None
    if stored is not None and first is not None:
        growth.free -= 1
    return None if stored is None or has_sparse_list(stored) else Column(stored, stored.type, {}, first)


def _build(values: Sequence[Any], to_array: Callable[[str, list[Any]], pa.Array | None], *, is_map: bool) -> pa.Array:
    """Converts objects to maps or structs, whose fields ``to_array`` converts. May raise ``CONVERSION_ERRORS``."""
    objects = [value for value in values if value is not None]
    mask = pa.array([value is None for value in values], pa.bool_())
    keys = list(chain.from_iterable(map(dict.keys, objects)))
    "".join(keys)  # raises TypeError if a key is not text
    if is_map:
        offsets = pa.array([0, *accumulate(len(value or ()) for value in values)], pa.int32())
        items = to_array("", list(chain.from_iterable(map(dict.values, objects))))
        return pa.MapArray.from_arrays(offsets, pa.array(keys, pa.string()), items, mask=mask)
    names = list(dict.fromkeys(keys))
    children = [to_array(name, [(value or {}).get(name) for value in values]) for name in names]
    return pa.StructArray.from_arrays(children, names, mask=mask)


def _fit_part(name: str, values: list[Any], kind: pa.DataType, *, fixed: bool, growth: Growth) -> pa.Array | None:
    """Fits the values of a field or of a map. ``None`` if a value does not fit, or if there are too many cells."""
    kind = kind.item_type if pa.types.is_map(kind) else kind.field(name).type
    if len(values) * scalar_count(kind) > MOST_CELLS:
        return None
    array = None if contains(kind, pa.types.is_map) else infer(values)  # Arrow would infer structs
    column = coerce_array(array, values, kind, fixed=fixed, growth=replace(growth, free=0))
    if column.misfits or column.kind != kind:
        return None
    return pa.nulls(len(values), kind) if column.array is None else column.array


def _canonical(kind: pa.DataType) -> pa.DataType:
    return (ZONED if kind.tz else UNZONED) if pa.types.is_timestamp(kind) else kind


def _recast_column(array: pa.Array, kind: pa.DataType, *, fixed: bool, widens: bool) -> pa.Array | None:
    """Casts an array to the column's type. bigint may become double. ``None`` if values must be fitted one by one."""
    if pa.types.is_floating(array.type) and kind == pa.int64():
        if not _has_negative_zero(array):
            try:
                return array.cast(kind)
            except pa.ArrowInvalid:  # a fraction, NaN or infinity
                pass
        return array if widens and not fixed else None
    if fixed and pa.types.is_string(array.type) and pa.types.is_temporal(kind):
        return _parse(array, kind)
    if fixed and kind == pa.string() and array.type in (pa.int64(), pa.bool_()):
        return array.cast(kind)  # the cast writes the same text as JSON
    return recast(array, kind) if accepts(kind, array.type) else None


def parse_times(texts: pa.Array, *kinds: pa.DataType) -> pa.Array:
    """Parses texts as the first type that fits the first text. Raises ``ArrowInvalid`` if a text does not fit."""
    first = texts.drop_null()[:1]  # Arrow needs a microsecond for each text that it refuses
    for kind in kinds:
        with suppress(pa.ArrowInvalid):
            first.cast(kind)
            return texts.cast(kind)
    raise pa.ArrowInvalid("no times that Arrow can parse")


def _parse(array: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """Parses times. All times, or no times, have a zone (by default UTC). ``None`` if a year is not 1 to 9999."""
    moments = parse_times(array, *((ZONED, UNZONED) if kind == ZONED else (kind,))).cast(kind)
    # Arrow accepts the year 0. With a zone, a time in the year 1 can become the year 0 in UTC. Python has no year 0.
    numbers = pc.min_max(moments.cast(pa.int32() if pa.types.is_date(kind) else pa.int64())).as_py()
    first, last = DAYS if pa.types.is_date(kind) else MICROSECONDS
    return moments if first <= numbers["min"] and numbers["max"] <= last else None


def _is_plain(kind: pa.DataType, depth: int = 0) -> bool:
    """Whether the rules for columns and Arrow choose this type for the same values."""
    if depth > MAX_DEPTH:
        return False
    if pa.types.is_nested(kind):
        return all(_is_plain(part, depth + 1) for part in parts(kind))
    if pa.types.is_timestamp(kind):
        return bool(kind.unit == "us")
    return pa.types.is_null(kind) or kind in _PLAIN


def accepts(kind: pa.DataType, source: pa.DataType) -> bool:
    """Whether arrays of the type ``source`` can be cast to ``kind``. The cast may still fail for some values."""
    if is_void(source):
        return True
    if pa.types.is_struct(kind) and pa.types.is_struct(source):
        types = {field.name: field.type for field in kind}
        return all(
            accepts(types[field.name], field.type) if field.name in types else is_void(field.type, is_new=True)
            for field in source
        )
    if pa.types.is_nested(kind) and kind.id == source.id:
        return accepts(parts(kind)[-1], parts(source)[-1])
    if pa.types.is_decimal(source):  # from Avro
        return bool(pa.types.is_decimal(kind))
    if pa.types.is_integer(source):
        return kind in (pa.int64(), pa.int32(), pa.float64())
    return bool(_canonical(source) == kind)


def has_sparse_list(array: pa.Array) -> bool:
    """Whether the array contains a list that ``app.convert.values`` would refuse because most cells are empty."""
    array = as_lists(array)
    if pa.types.is_struct(array.type):
        return any(map(has_sparse_list, array.flatten()))
    if not pa.types.is_list(array.type):
        return False
    width = scalar_count(array.type)
    for row in pc.indices_nonzero(pc.greater(pc.multiply(pc.list_value_length(array), width), FEW_CELLS)).to_pylist():
        elements = array[row].values
        if is_sparse_list(len(elements) * width, partial(_filled, elements)):
            return True
    return has_sparse_list(array.flatten())


def _filled(array: pa.Array) -> int:
    array = as_lists(array)
    if pa.types.is_struct(array.type):
        return sum(map(_filled, array.flatten()))
    return _filled(array.flatten()) if pa.types.is_list(array.type) else len(array) - array.null_count


def as_lists(array: Any) -> Any:
    """Returns an array of maps as lists of pairs, because Arrow has no functions for maps."""
    return array.cast(pa.list_(array.type.field(0))) if pa.types.is_map(array.type) else array


def has_values(array: pa.Array | None) -> bool:
    return array is not None and array.null_count < len(array)


def is_void(kind: pa.DataType, *, is_new: bool = False) -> bool:
    """Whether a type has no values: null, or a struct of types without values. If ``is_new``, also a list or map."""
    if pa.types.is_struct(kind) or (is_new and pa.types.is_nested(kind)):
        return all(is_void(part, is_new=is_new) for part in parts(kind)[pa.types.is_map(kind) :])
    return bool(pa.types.is_null(kind))


def recast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Casts an array without loss. Fields of structs are matched by name. A struct without any value becomes null."""
    if is_void(array.type):
        return pa.nulls(len(array), kind)
    if pa.types.is_struct(kind):
        # Fields are read by position, because Arrow reads a name that begins with a dot or a bracket as a path.
        fields = {field.name: child for field, child in zip(array.type, array.flatten(), strict=True)}
        children = [
            recast(fields[field.name], field.type) if field.name in fields else pa.nulls(len(array), field.type)
            for field in kind
        ]
        empty = children[0].is_null()
        for child in children[1:]:
            empty = pc.and_(empty, child.is_null())
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=empty)
    if pa.types.is_nested(kind):
        return change_items(array, lambda items: recast(items, parts(kind)[-1]))
    return array if array.type == kind else array.cast(kind)


def change_items(array: pa.Array, change: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Returns lists with changed elements, or maps with changed values."""
    mask = array.is_null() if array.null_count else None
    if pa.types.is_map(array.type):
        return pa.MapArray.from_arrays(array.offsets, array.keys, change(array.items), mask=mask)
    return pa.ListArray.from_arrays(array.offsets, change(array.values), mask=mask)


def _has_negative_zero(array: pa.Array) -> bool:
    zeros = array.filter(pc.equal(array, 0.0))
    return bool(pc.any(pc.less(pc.divide(1.0, zeros), 0.0)).as_py())


def _is_mixed(array: pa.Array, values: Sequence[Any]) -> bool:
    """Whether Arrow has silently changed values of another type."""
    rows = _suspects(array)
    return rows is not None and any(_differs(values[row], array.type) for row in rows.to_pylist())


def _suspects(array: pa.Array) -> pa.Array | None:
    """Returns the rows whose values must be checked; ``None`` if no row must be checked."""
    kind = array.type
    if pa.types.is_floating(kind):
        hit = pc.or_(pc.equal(array, 0.0), pc.equal(array, 1.0))
    elif pa.types.is_temporal(kind) or pa.types.is_binary(kind):
        hit = array.is_valid()
    elif pa.types.is_struct(kind):
        suspects = [rows.cast(pa.int64()) for child in array.flatten() if (rows := _suspects(child)) is not None]
        return pa.concat_arrays(suspects).unique() if suspects else None
    elif pa.types.is_list(kind):
        inner = _suspects(array.flatten())
        return None if inner is None else pc.list_parent_indices(array).take(inner).unique()
    else:
        return None
    rows = pc.indices_nonzero(hit)
    return rows if len(rows) else None


def _differs(value: Any, kind: pa.DataType) -> bool:
    """Whether the type of a value, or of a nested value, differs from the type that Arrow inferred."""
    if value is None:
        return False
    if pa.types.is_struct(kind):
        return any(_differs(value.get(field.name), field.type) for field in kind)
    if pa.types.is_list(kind):
        return any(_differs(item, kind.value_type) for item in value)
    if pa.types.is_floating(kind):
        return type(value) not in (float, int)
    if pa.types.is_timestamp(kind):
        return not isinstance(value, datetime) or (value.tzinfo is None) != (kind.tz is None)
    if pa.types.is_date(kind):
        return type(value) is not date
    return pa.types.is_binary(kind) and isinstance(value, str)
