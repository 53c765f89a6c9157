"""The table that ``compact`` and ``erase`` work on: its folders, its files with their footers, and its schema."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from heapq import merge
from itertools import groupby
from operator import attrgetter

from app.config.settings import Settings
from app.journal.journal import survey
from app.model import DataFile
from app.parts.commands.tables import find_table, require_table
from app.service.lake import new_lake
from app.storage.base import ManyDeleter, StoredObject
from app.storage.conditional import try_out
from app.table.layout import is_data_file, journal_folder, spec_of_key
from app.table.parquet_reader import read_footer, schema_of
from app.table.schema import TableSchema
from app.work_pool import side_by_side


class TableAtWork:
    """A table during one run. ``writes`` is false for a dry run.

    ``schema`` contains the columns of all files that were read, ``at_begin`` the batches that were pending or rolled
    back when the run began.
    """

    def __init__(self, settings: Settings, *, writes: bool) -> None:
        self.settings = settings
        self.writes = writes
        self.store, location, known, self.catalog = find_table(settings)
        self.root = location.root
        require_table(self.store, location)
        lake = new_lake(settings, self.store, location, known, self.catalog)
        self.spec, self.registrar, self._stored_schema = lake.spec, lake.registrar, lake.schema
        if writes:
            try_out(self.store, journal_folder(self.root))  # above all, whether files may be deleted
            self._stored_schema.open()
        self.schema = self._stored_schema.current if writes else self._stored_schema.would_be()
        self.at_begin = survey(self.store, self.root)

    def folders(self, globs: Sequence[str]) -> Iterator[tuple[str, list[StoredObject]]]:
        """Yield the folders with data files, by their paths below the table, that match one of the patterns.

        ``year=2024/*`` and ``year=2024`` match all folders below it too. Without a pattern all folders match. A folder
        that only had pending files when the run began is one without files.
        """
        files = (found for found in self.store.list(f"{self.root}/") if is_data_file(found.key, self.root))
        pending = sorted(key for key in self.at_begin.pending if is_data_file(key, self.root))
        coming = (StoredObject(key, 0, datetime.now(UTC)) for key in pending)
        by_key = merge(files, coming, key=attrgetter("key"))
        for path, group in groupby(by_key, lambda found: self.folder_of(found.key)):
            if is_chosen(path, globs):
                yield path, [found for found in group if found.size]

    def folder_of(self, key: str) -> str:
        """The path of a file's folder below the table."""
        return key.removeprefix(f"{self.root}/").rpartition("/")[0]

    def files_in(self, path: str) -> list[StoredObject]:
        """The data files of one folder, without those of folders in it."""
        listed = self.store.list(f"{self.root}/{path}/" if path else f"{self.root}/")
        return [found for found in listed if is_data_file(found.key, self.root) and self.folder_of(found.key) == path]

    def partition_values(self, path: str) -> dict[str, str | None]:
        """The values in a folder's path, ``None`` for a null."""
        values = self.texts_of(f"{self.root}/{path}/file").items()
        return {name: None if value == self.spec.null_value else value for name, value in values}

    def texts_of(self, key: str) -> dict[str, str]:
        """The values in a file's key, as folders have them."""
        return dict(zip(*spec_of_key(key, self.root), strict=True))

    def with_footers(self, files: Iterable[StoredObject]) -> Sequence[DataFile]:
        """The files with their footers; ``FatalError`` for an object that is no Parquet file."""
        return [file for _, file in side_by_side(self.settings.max_write_workers, self._with_footer, files)]

    def rows_of(self, found: StoredObject | None) -> int:
        """The number of rows of a file; 0 without one."""
        return self._with_footer(found).rows if found else 0

    def _with_footer(self, found: StoredObject) -> DataFile:
        footer = read_footer(self.store, found.key, found.size)
        values = self.texts_of(found.key)
        return DataFile(
            found.key, values, footer.num_rows, found.size, last_modified=found.last_modified, footer=footer
        )

    def cover(self, files: Sequence[DataFile]) -> None:
        """Make the table's schema have all columns of the files; ``ValueError`` if two differ only in capitals."""
        wanted = TableSchema()
        fixed = self.settings.column_types
        found = [TableSchema.from_arrow(schema).columns for schema in {*map(schema_of, files)}]
        for columns in found:
            wanted = wanted.merge(TableSchema({name: fixed.get(name, kind) for name, kind in columns.items()}))
        self.schema = self._stored_schema.extend(wanted) if self.writes else self.schema.merge(wanted)
        for name in (name for columns in found for name in columns):
            if name not in self.schema.columns:
                raise ValueError(f"its column {name!r} differs from another one only in capitals")

    def register(self, files: Iterable[StoredObject]) -> None:
        """Inform the catalog, where there is one, of files that are new or have other rows than before."""
        if self.registrar.is_needed:
            self.registrar.register_again(self.with_footers(files))

    def delete(self, keys: Sequence[str]) -> None:
        """Delete objects, in one request for many where the store has one."""
        if isinstance(self.store, ManyDeleter):
            self.store.delete_many(keys)
            return
        for _ in side_by_side(self.settings.max_write_workers, self.store.delete, keys):
            pass


def is_chosen(path: str, globs: Sequence[str]) -> bool:
    """Whether one of the patterns matches the path of a folder, or of one above it; without patterns all are chosen."""
    return not globs or any(fnmatchcase(path, glob) or fnmatchcase(path, f"{glob}/*") for glob in globs)
