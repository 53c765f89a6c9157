"""Finds the folders of a table with files to merge, and decides which of them become one."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from heapq import merge
from itertools import groupby
from operator import attrgetter

import pyarrow as pa
import pyarrow.parquet as pq

from app.storage.base import ObjectStore, StoredObject
from app.table.layout import is_data_file, is_merged, spec_of_key
from app.table.schema import TableSchema
from app.table.type_names import type_name

WHILE_KEPT = timedelta(days=1)  # how long the name of a merged file stays taken, against uploads that are late
_CODEC = "ZSTD"


@dataclass(frozen=True, slots=True)
class TableFile:
    """A data file with its footer."""

    key: str
    size: int
    last_modified: datetime
    footer: pq.FileMetaData = field(repr=False)

    @property
    def rows(self) -> int:
        """The number of its rows."""
        return int(self.footer.num_rows)

    @property
    def schema(self) -> pa.Schema:
        """Its columns, without metadata."""
        return self.footer.schema.to_arrow_schema().remove_metadata()


@dataclass(frozen=True, slots=True)
class Bin:
    """Files that become one, and why, besides that they are several."""

    files: Sequence[TableFile]
    reasons: Sequence[str] = ()

    @property
    def rows(self) -> int:
        """Of all files."""
        return sum(file.rows for file in self.files)

    @property
    def size(self) -> int:
        """Of all files, in bytes."""
        return sum(file.size for file in self.files)


Folder = tuple[str, list[StoredObject]]


def list_folders(store: ObjectStore, root: str, globs: Sequence[str], pending: Collection[str]) -> Iterator[Folder]:
    """Yield the folders with data files, by their paths below the table, that match one of the patterns.

    ``year=2024/*`` and ``year=2024`` match all folders below it too. Without a pattern all folders match. A folder that
    only has keys of ``pending`` is one without files.
    """
    files = (found for found in store.list(f"{root}/") if is_data_file(found.key, root))
    coming = (StoredObject(key, 0, datetime.now(UTC)) for key in sorted(pending) if is_data_file(key, root))
    for path, group in groupby(merge(files, coming, key=attrgetter("key")), lambda found: folder_of(found.key, root)):
        if not globs or any(fnmatchcase(path, glob) or fnmatchcase(path, f"{glob}/*") for glob in globs):
            yield path, [found for found in group if found.size]


def folder_of(key: str, root: str) -> str:
    """The path of a file's folder below the table."""
    return key.removeprefix(f"{root}/").rpartition("/")[0]


def files_in(store: ObjectStore, root: str, path: str) -> list[StoredObject]:
    """The data files of one folder, without those of folders in it."""
    prefix = f"{root}/{path}/" if path else f"{root}/"
    return [
        found for found in store.list(prefix) if is_data_file(found.key, root) and "/" not in found.key[len(prefix) :]
    ]


def partition_values(root: str, path: str, null_value: str) -> dict[str, str | None]:
    """The values in a folder's path below the table, ``None`` for a null."""
    names, values = spec_of_key(f"{root}/{path}/file", root)
    return {name: None if value == null_value else value for name, value in zip(names, values, strict=True)}


@dataclass(frozen=True, slots=True)
class Planner:
    """Decides which files of a folder become one.

    Args:
        schema_changed: when the table's schema was changed last.
        target_bytes: the most that files of one bin have together.
        when_cold: the age of the youngest file of a folder.
        keeps_names: whether a catalog lists the files: none is then deleted, so files without rows stay.
        now: the time.
    """

    schema_changed: datetime | None
    target_bytes: int
    when_cold: timedelta
    keeps_names: bool
    now: datetime = field(default_factory=lambda: datetime.now(UTC))

    def is_cold(self, files: Sequence[StoredObject]) -> bool:
        """Whether a folder has got no file for long."""
        return self.now - max(file.last_modified for file in files) >= self.when_cold

    def is_candidate(self, files: Sequence[StoredObject]) -> bool:
        """Whether footers are worth reading; by the listing alone."""
        small = sum(file.size < self.target_bytes / 2 for file in files)
        return small > 1 or any(not is_merged(file.key) or self._is_older(file) for file in files)

    def _is_older(self, file: StoredObject) -> bool:
        return self.schema_changed is not None and file.last_modified < self.schema_changed

    def plan(self, files: Sequence[TableFile], table: TableSchema) -> Iterator[Bin]:
        """Yield the bins with something to do: several files, types or a codec to be changed, files without rows.

        Args:
            files: of one folder.
            table: the table's schema, with the columns of all files.
        """
        some: list[TableFile] = []
        reasons: set[str] = set()
        size = 0
        is_free = self.now - WHILE_KEPT
        if empty := [file for file in files if not file.rows and not self.keeps_names and file.last_modified < is_free]:
            yield Bin(empty, ["without rows"])
        for file in files:
            why = self._reasons(file, table.columns)
            if not file.rows or (not why and file.size >= self.target_bytes):
                continue
            if some and size + file.size > self.target_bytes:
                yield from _bins(some, reasons)
                some, reasons, size = [], set(), 0
            some.append(file)
            reasons |= why
            size += file.size
        yield from _bins(some, reasons)

    @staticmethod
    def _reasons(file: TableFile, table: Mapping[str, pa.DataType]) -> set[str]:
        differences = {
            f"{name} {type_name(kind)} → {type_name(table[name])}"
            for name, kind in TableSchema.from_arrow(file.schema).columns.items()
            if kind != table[name]
        }
        codecs = {
            file.footer.row_group(group).column(column).compression
            for group in range(file.footer.num_row_groups)
            for column in range(file.footer.num_columns)
        }
        return differences | {f"{codec.lower()} → zstd" for codec in codecs - {_CODEC}}


def _bins(files: Sequence[TableFile], reasons: set[str]) -> Iterator[Bin]:
    if len(files) > 1 or reasons:
        yield Bin(tuple(files), sorted(reasons))
