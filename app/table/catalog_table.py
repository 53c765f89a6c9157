"""A table as the catalog holds it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

Derivation = Callable[[pa.Table], pa.Array]
"""Computes the texts of a folder column, without nulls, from the columns of a file."""


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """A table as the catalog holds it.

    ``location`` has no slash at its end and is empty where the catalog holds none; ``partition_spec`` is empty until
    the first files fill it. ``columns`` are those of an Iceberg table, ``None`` for any other. ``fields`` returns the
    column of files by each name that it has or had in the table, ``None`` if it was dropped; ``derived`` the folder
    columns that are computed from the columns of files. ``partitions`` has all partitions as ``HIVE_COLUMNS`` does.
    """

    location: str
    partition_spec: tuple[str, ...]
    properties: Mapping[str, Any] = field(default_factory=dict)
    columns: pa.Schema | None = None
    fields: Callable[[], Mapping[str, pa.Field | None]] = field(default=dict, compare=False)
    derived: Callable[[], Mapping[str, Derivation]] = field(default=dict, compare=False)
    partitions: tuple[str, ...] = ()
