"""A table as the catalog holds it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """A table as the catalog holds it.

    ``location`` has no slash at its end and is empty where the catalog holds none; ``partition_spec`` is empty until
    the first files fill it. ``columns`` are those of an Iceberg table, ``None`` for any other. ``fields`` returns the
    column of files by each name that it has or had in the table, ``None`` if it was dropped.
    """

    location: str
    partition_spec: tuple[str, ...]
    properties: Mapping[str, Any] = field(default_factory=dict)
    columns: pa.Schema | None = None
    fields: Callable[[], Mapping[str, pa.Field | None]] = field(default=dict, compare=False)
