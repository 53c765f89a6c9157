"""A table as the catalog holds it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa


class Computed(Protocol):
    """A folder column that is computed from the columns of a file."""

    @property
    def name(self) -> str: ...

    @property
    def source(self) -> str:
        """The column of the files."""

    def texts(self, rows: pa.Table, /) -> pa.Array:
        """Returns the value of each row as text, without nulls; of a missing one the name of the null folder."""

    def folder(self, text: str, /) -> str:
        """Returns what the folder shows for this text."""


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """A table as the catalog holds it.

    ``location`` has no slash at its end and is empty where the catalog holds none; ``partition_spec`` is empty until
    the first files fill it. ``columns`` are those of an Iceberg table, ``None`` for any other. ``fields`` returns the
    column of files by each name that it has or had in the table, ``None`` if it was dropped; ``computed`` the folder
    columns that are in no record. ``partitions`` has all partitions as ``HIVE_COLUMNS`` does.
    """

    location: str
    partition_spec: tuple[str, ...]
    properties: Mapping[str, Any] = field(default_factory=dict)
    columns: pa.Schema | None = None
    fields: Callable[[], Mapping[str, pa.Field | None]] = field(default=dict, compare=False)
    computed: Callable[[], Sequence[Computed]] = field(default=tuple, compare=False)
    partitions: tuple[str, ...] = ()
