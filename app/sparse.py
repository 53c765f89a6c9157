"""Records with field names of their own each: as columns they would take the square of their number.

Arrow makes a column of every name that it meets, with a place for every record (or, in a list, every element).
"""

import gc
from collections.abc import Collection, Sequence
from typing import Any

_MOST_CELLS = 16 * 2**20  # places of columns: each takes 8 bytes, whether or not it has a value
_FILLED = 16  # of so many places one has a value, or they are too many


def sparse_fields(records: Sequence[dict[str, Any]]) -> Collection[str]:
    """Fields whose objects and lists would make too many columns for what is in them."""
    nested: dict[str, list[Any]] = {}
    # The garbage collector does not track a dictionary of numbers and texts alone: asked, it tells most flat records at
    # once, and looking at each of their values takes half as long as all of their conversion.
    for record in filter(gc.is_tracked, records):
        for name, value in record.items():
            if type(value) is dict or type(value) is list:
                nested.setdefault(name, []).append(value)
    return [name for name, values in nested.items() if _is_sparse(values, len(records))]


def _is_sparse(values: list[Any], rows: int) -> bool:
    paths: dict[tuple[int, str], int] = {}
    items = elements = 0
    left = [(0, value) for value in values]
    while left:
        path, value = left.pop()
        if type(value) is dict:
            items += len(value)
            for name, each in value.items():
                inner = paths.setdefault((path, name), len(paths) + 1)
                if type(each) is dict or type(each) is list:
                    left.append((inner, each))
        else:
            items += len(value)
            elements += len(value)
            left += [(path, each) for each in value if type(each) is dict or type(each) is list]
    cells = max(rows, elements) * len(paths)
    return cells > _MOST_CELLS and cells > _FILLED * items
