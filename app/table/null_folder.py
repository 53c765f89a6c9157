"""The folder of rows without a value in a partition column: its two names, and which of them a table has.

A table keeps the name that it has. A new one gets the name that its readers expect.
"""

from collections.abc import Iterable

QUIX_NULL = "__None__"
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


def null_folder_of(values: Iterable[str]) -> str | None:
    """The name that a table with these partition values has; ``None`` if none of them is one."""
    seen = set(values)
    return next((name for name in (QUIX_NULL, HIVE_NULL) if name in seen), None)


def default_null_folder(*, has_catalog: bool) -> str:
    """The name for a table that has none: Quix' readers look in the catalog, all others expect Hive's."""
    return QUIX_NULL if has_catalog else HIVE_NULL
