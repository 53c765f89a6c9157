"""Finds the fields of records: checks their names, infers their types with Arrow, and finds sparse fields.

Arrow makes a column of each name, with a cell for each record (or, in a list, each element). If each of n records has
its own field names, that is n * n cells. Such fields are sparse.
"""

import gc
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from itertools import chain
from operator import methodcaller
from typing import Any

import pyarrow as pa

from app.bad_records.refusals import BadRowsError
from app.convert.columns import infer
from app.convert.scalars import is_unicode
from app.reasons import Reason, about

_MOST_CELLS = 16 * 2**20  # cells: each takes 8 bytes, with or without a value
_FILLED = 16  # more cells than this for one value are too many
_NESTED = frozenset({dict, list})


class FieldValues(Sequence[Any]):
    """One field of all records, without a copy."""

    def __init__(self, records: Sequence[dict[str, Any]], name: str) -> None:
        self._records = records
        self._name = name

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, row: Any) -> Any:
        return self._records[row].get(self._name)

    def __iter__(self) -> Iterator[Any]:
        name = self._name
        return (record.get(name) for record in self._records)


def field_names(values: list[dict[str, Any]]) -> Set[str]:
    """Returns the names of all fields; ``BadRowsError`` if records cannot be rows."""
    if all(issubclass(kind, dict) for kind in set(map(type, values))):
        names: set[Any] = set().union(*values)
        if all(isinstance(name, str) and is_unicode(name) for name in names):
            return names
    raise BadRowsError({row: reason for row, value in enumerate(values) if (reason := _refusal(value))})


def infer_fields(values: list[dict[str, Any]], sparse: Collection[str]) -> dict[str, pa.Array | None]:
    """Infers the fields of all records with Arrow, at once if it can; returns them in the order they are first seen."""
    records = None if sparse else infer(values)
    if records is not None and pa.types.is_struct(records.type):
        return dict(zip((field.name for field in records.type), records.flatten(), strict=True))
    names = dict.fromkeys(name for value in values for name in value)
    return {name: None if name in sparse else infer(FieldValues(values, name)) for name in names}


def _refusal(value: Any) -> Reason | None:
    if not isinstance(value, dict):
        return about(value, "", "it is no object with fields, but ")
    for name in value:
        if not isinstance(name, str):
            return about(name, " is not text", "its field name ")
        if not is_unicode(name):
            return about(name, " is not Unicode", "its field name ")
    return None


def sparse_fields(records: Sequence[dict[str, Any]], names: Iterable[str]) -> Collection[str]:
    """Returns the fields whose objects and lists would make too many empty cells; ``names`` are those of all fields."""
    # The garbage collector does not track a dictionary of only numbers and texts, so most flat records are found by one
    # call. To check each of their values would take half as long as to convert them.
    nested = list(filter(gc.is_tracked, records))
    if _NESTED.isdisjoint(map(type, chain.from_iterable(map(dict.values, nested)))):
        return ()
    return [name for name in names if _is_sparse(_nested(map(methodcaller("get", name), nested)), len(records))]


def _nested(values: Iterable[Any]) -> list[Any]:
    return [value for value in values if type(value) in _NESTED]


def _is_sparse(values: list[Any], rows: int) -> bool:
    if not values or not _may_be_sparse(values, rows):
        return False
    paths, items, elements = _measured(values)
    cells = max(rows, elements) * paths
    return cells > _MOST_CELLS and cells > _FILLED * items


def _may_be_sparse(values: list[Any], rows: int) -> bool:
    """Whether there may be that many cells: a rough count, level by level, one field after another."""
    paths = 0
    left = [(values, rows)]
    while left:
        some, places = left.pop()
        lists = [value for value in some if type(value) is list]
        if lists:
            inner = _nested(chain.from_iterable(lists))
            if inner:
                left.append((inner, max(places, sum(map(len, lists)))))
        objects = [value for value in some if type(value) is dict]
        names: set[str] = set().union(*objects)
        paths += len(names)
        if paths * places > _MOST_CELLS:
            return True
        if not _NESTED.isdisjoint(map(type, chain.from_iterable(map(dict.values, objects)))):
            left += [(inner, places) for name in names if (inner := _nested(map(methodcaller("get", name), objects)))]
    return False


def _measured(values: list[Any]) -> tuple[int, int, int]:
    """Counts the different paths of names, the values, and those of them that are in lists."""
    paths: dict[tuple[int, str], int] = {}
    items = elements = 0
    left = [(0, value) for value in values]
    while left:
        path, value = left.pop()
        items += len(value)
        if type(value) is dict:
            for name, each in value.items():
                inner = paths.setdefault((path, name), len(paths) + 1)
                if type(each) in _NESTED:
                    left.append((inner, each))
        else:
            elements += len(value)
            left += [(path, each) for each in value if type(each) in _NESTED]
    return len(paths), items, elements
