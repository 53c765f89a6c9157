"""Reads the table that ``compact`` and ``erase`` process: the folders, the files with footers, and the schema."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from heapq import merge
from itertools import groupby
from operator import attrgetter

from app.config.settings import Settings
from app.journal.journal import survey
from app.model import DataFile
from app.parts.commands.find_tables import find_table, require_table
from app.service.lake import new_lake
from app.storage.base import ManyDeleter, StoredObject
from app.storage.conditional import try_out
from app.table.layout import is_data_file, journal_folder, spec_of_key
from app.table.parquet_reader import read_footer, schema_of
from app.table.schema import TableSchema
from app.work_pool import side_by_side


class TableAtWork:
    """A table during one run of a command. ``writes`` is false for a dry run.

    ``schema`` contains the table's columns, and the columns of all files read so far. ``at_begin`` contains the
    batches that were pending or rolled back at the start of the run.
    """

    def __init__(self, settings: Settings, *, writes: bool) -> None:
        self.settings = settings
        self.writes = writes
        self.store, location, catalog_table, self.catalog = find_table(settings)
        self.root = location.root
        require_table(self.store, location)
        lake = new_lake(settings, self.store, location, catalog_table, self.catalog)
        self.spec, self.registrar, self._stored_schema = lake.spec, lake.registrar, lake.schema
        if writes:
            try_out(self.store, journal_folder(self.root))  # checks the login's rights, for example to delete
            self._stored_schema.open()
        self.schema = self._stored_schema.current if writes else self._stored_schema.would_be()
        self.at_begin = survey(self.store, self.root)

    def folders(self, globs: Sequence[str]) -> Iterator[tuple[str, list[StoredObject]]]:
        """Yield the path below the table, and the data files, of each folder that matches a pattern.

        ``year=2024/*`` and ``year=2024`` also match all folders below ``year=2024``. Without a pattern, all folders
        match. If a folder contained only pending files at the start of the run, the list of files may be empty.
        """
        files = (stored for stored in self.store.list(f"{self.root}/") if is_data_file(stored.key, self.root))
        keys = sorted(key for key in self.at_begin.pending if is_data_file(key, self.root))
        pending = (StoredObject(key, 0, datetime.now(UTC)) for key in keys)
        by_key = merge(files, pending, key=attrgetter("key"))
        for path, group in groupby(by_key, lambda stored: self.folder_of(stored.key)):
            if is_chosen(path, globs):
                yield path, [stored for stored in group if stored.size]

    def folder_of(self, key: str) -> str:
        """Return the path of a file's folder, relative to the table's root."""
        return key.removeprefix(f"{self.root}/").rpartition("/")[0]

    def files_in(self, path: str) -> list[StoredObject]:
        """Return the data files of a folder, without the files of its subfolders."""
        listed = self.store.list(f"{self.root}/{path}/" if path else f"{self.root}/")
        return [each for each in listed if is_data_file(each.key, self.root) and self.folder_of(each.key) == path]

    def partition_values(self, path: str) -> dict[str, str | None]:
        """Return the partition values in a folder's path. A null is ``None``."""
        values = self.texts_of(f"{self.root}/{path}/file").items()
        return {name: None if value == self.spec.null_value else value for name, value in values}

    def texts_of(self, key: str) -> dict[str, str]:
        """Return the partition values in a file's object key, as texts."""
        return dict(zip(*spec_of_key(key, self.root), strict=True))

    def with_footers(self, files: Iterable[StoredObject]) -> Sequence[DataFile]:
        """Return the files with their footers. Raise ``FatalError`` if an object is not a Parquet file."""
        return [file for _, file in side_by_side(self.settings.max_write_workers, self._with_footer, files)]

    def rows_of(self, stored: StoredObject | None) -> int:
        """Return the number of rows in a file; 0 if ``stored`` is ``None``."""
        return self._with_footer(stored).rows if stored else 0

    def _with_footer(self, stored: StoredObject) -> DataFile:
        key, modified = stored.key, stored.last_modified
        footer = read_footer(self.store, key, stored.size)
        return DataFile(key, self.texts_of(key), footer.num_rows, stored.size, last_modified=modified, footer=footer)

    def cover(self, files: Sequence[DataFile]) -> None:
        """Add the columns of the files to the schema. Raise ``ValueError`` if two names differ only in upper case."""
        schema, fixed = TableSchema(), self.settings.column_types
        columns_of_files = [TableSchema.from_arrow(footer).columns for footer in {*map(schema_of, files)}]
        for columns in columns_of_files:
            schema = schema.merge(TableSchema({name: fixed.get(name, kind) for name, kind in columns.items()}))
        self.schema = self._stored_schema.extend(schema) if self.writes else self.schema.merge(schema)
        for name in (name for columns in columns_of_files for name in columns):
            if name not in self.schema.columns:
                raise ValueError(f"its column {name!r} differs from another column only in capitals")

    def register(self, files: Iterable[StoredObject]) -> None:
        """If the table has a catalog, register files that are new, or whose rows have changed."""
        if self.registrar.is_needed:
            self.registrar.register_again(self.with_footers(files))

    def delete(self, keys: Sequence[str]) -> None:
        """Delete stored objects. If the store supports this, one request deletes many objects."""
        if isinstance(self.store, ManyDeleter):
            self.store.delete_many(keys)
            return
        for _ in side_by_side(self.settings.max_write_workers, self.store.delete, keys):
            pass


def is_chosen(path: str, globs: Sequence[str]) -> bool:
    """Return whether a pattern matches the folder or one of its parent folders. Without patterns, return true."""
    return not globs or any(fnmatchcase(path, glob) or fnmatchcase(path, f"{glob}/*") for glob in globs)
