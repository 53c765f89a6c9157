"""The null folder, for rows without a value in a partition column: its two names, and the one a table uses.

A table keeps the name that it has. A new one gets the name that its readers expect.
"""

import difflib
from collections.abc import Iterable

QUIX_NULL = "__None__"
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"

_NEAR = 0.8  # locaton is near to location


def null_folder_of(values: Iterable[str]) -> str | None:
    """Finds the null folder's name among these partition values; ``None`` if there is none."""
    seen = set(values)
    return next((name for name in (QUIX_NULL, HIVE_NULL) if name in seen), None)


def likely_meant(column: str, names: Iterable[str], setting: str = "HIVE_COLUMNS") -> str:
    """Advises on a column that rows lack: a similar name, or a path into an object. Empty without a guess."""
    folded = {name.casefold(): name for name in names if name != column}
    near = difflib.get_close_matches(column.casefold(), folded, n=1, cutoff=_NEAR)
    if near:
        return f"Did you mean {folded[near[0]]}?"
    *_, last = path = column.split(".")
    if len(path) == 1:
        return ""
    keys = "".join(f'["{name}"]' for name in path)
    return (
        "A column is a field of the record, and no path into an object. "
        f'Write sdf["{last}"] = sdf{keys} in transform(), and {last} in {setting}'
    )
