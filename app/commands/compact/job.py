"""Goes through a table's folders, for ``compact`` and ``erase``."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from threading import Lock
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from app.commands.compact.folders import Bin, TableFile, files_in, folder_of, list_folders, partition_values
from app.commands.compact.merger import GivenUpError, Merger, SkippedError, SparkAccess, delete, table_file
from app.commands.compact.record import FolderRecord, open_records, read_record, staged_files
from app.commands.existing_table import require_table
from app.commands.output import print_line
from app.commands.side_by_side import side_by_side
from app.config.settings import Settings
from app.errors import FatalError
from app.formatting import counted
from app.journal.survey import Survey, survey
from app.service.lake import new_catalog, new_location, new_registrar, new_schema, new_spec
from app.service.spark import access_of_executors, runs_locally, uri_for_executors
from app.service.stores import new_store
from app.spark.merge import Target, merge_session
from app.spark.scratch import scratch_folder
from app.storage.base import StoredObject
from app.storage.probe import try_out
from app.table.layout import RESCUED_COLUMN, journal_folder, schema_key
from app.table.schema import TableSchema

_FILES_AT_ONCE = 5_000  # of which the listing and the footers are in memory
_LEASE = timedelta(minutes=10)  # after which another run continues; it saves work, and nothing relies on it
_LEFT_OVER = timedelta(days=1)
_FOLDERS_AT_ONCE_ON_A_CLUSTER = 8
_FOLDERS_AT_ONCE = min(4, os.cpu_count() or 1)
_BUSY = f"another run is at it, or was cut off in the last {_LEASE.seconds // 60} minutes"
_UNSETTLED = "it has files of a batch that is not finished, or was rolled back; the connector finishes or removes them"

# A folder's path, its record, and its files with their footers.
Candidate = tuple[str, FolderRecord, Sequence[TableFile]]


@dataclass(frozen=True, slots=True)
class Change:
    """The result for files that became one: rows erased and left, and the new file's bytes (0 if there is none)."""

    files: Bin
    erased: int
    rows: int
    size: int


class LeftError(Exception):
    """A folder cannot be worked on, and stays as it is."""


class Job:
    """One run over a table; to be used with ``with``.

    Args:
        settings: of the table.
        globs: patterns of the folders; without any, all.
        writes: whether this is no dry run.

    Attributes:
        at_begin: what was pending or rolled back then.
        hindered: why not all rows of some folders could be worked on; another try may do.
        left: folders with an error.

    Raises:
        ConfigError: there is no such table.
        ConnectorError: the store or the catalog fails.
    """

    def __init__(self, settings: Settings, globs: Sequence[str], *, writes: bool) -> None:
        self._settings = settings
        self._globs = globs
        self._writes = writes
        self.store = new_store(settings)
        catalog = new_catalog(settings, self.store)
        known = catalog.check() if catalog else None
        self.location = new_location(settings, self.store, known)
        self.root = self.location.root
        require_table(self.store, self.location)
        self.spec = new_spec(settings, self.store, self.location, known)
        self.registrar = new_registrar(settings, catalog, self.location, known)
        self._schema = new_schema(settings, self.store, self.location, known)
        if writes:
            try_out(self.store, journal_folder(self.root))  # above all, whether files may be deleted
            self._schema.open()
        self.table = self._schema.current if writes else self._schema.look()
        self.hindered: dict[str, str] = {}
        self.left: set[str] = set()
        self._ends = ExitStack()
        self._lock = Lock()
        self.at_begin = survey(self.store, self.root)

    def __enter__(self) -> Self:
        settings = self._settings
        self._scratch = self._ends.enter_context(scratch_folder())
        self.merger = Merger(
            store=self.store,
            root=self.root,
            spark=SparkAccess(self.session, None if runs_locally(settings) else uri_for_executors(settings)),
            target=lambda: Target(
                {**self.table.columns, RESCUED_COLUMN: pa.string()},
                RESCUED_COLUMN,
                settings.sort_column or settings.timestamp_column,
            ),
            registrar=self.registrar,
            virtual=self.spec.virtual,
            null_value=self.spec.null_value,
            scratch=self._scratch,
            workers=settings.max_write_workers,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.close()

    @property
    def schema_changed(self) -> datetime | None:
        """When the table's schema was changed last."""
        found = self.store.find(schema_key(self.root))
        return found.last_modified if found else None

    def session(self) -> Any:
        """Spark's session; started at the first call."""
        with self._lock:  # several folders ask at once
            return self._session

    @cached_property
    def _session(self) -> Any:
        settings = self._settings
        conf = {} if runs_locally(settings) else access_of_executors(settings)
        heap = f"{settings.memory.heap_mb}m"
        return self._ends.enter_context(merge_session(settings.spark_master, heap, self._scratch, conf))

    def resume(self) -> None:
        """Complete what runs have begun that ended before, and delete what executors have left."""
        for record, found in open_records(self.store, self.root):
            assert record.current is not None  # noqa: S101 - it is open
            folder = record.current.folder or "."
            if datetime.now(UTC) - found.last_modified < _LEASE:
                print_line(f"{folder}: {_BUSY}")
                continue
            try:
                self.merger.resume(record)
            except SkippedError:
                print_line(f"{folder}: another run has completed it")
            except FatalError as error:  # the other folders can go on
                self.leave(record.current.folder, error)
            except GivenUpError:
                print_line(f"{folder}: given up what another run had begun, for its files have changed since")
            else:
                print_line(f"{folder}: completed what another run had begun")
        old = [
            found.key
            for found in staged_files(self.store, self.root)
            if datetime.now(UTC) - found.last_modified > _LEFT_OVER
        ]
        delete(self.store, old, self._settings.max_write_workers)

    def candidates(self, is_candidate: Callable[[str, Sequence[StoredObject]], bool]) -> Iterator[Sequence[Candidate]]:
        """Yield folders, some at a time, with those of their files that are in the table for good.

        For each folder the record is read first, then the files are listed, then the journals are read: the order of
        the model.
        """
        before = survey(self.store, self.root)
        some: list[tuple[str, FolderRecord, list[StoredObject]]] = []
        for path, listed in list_folders(self.store, self.root, self._globs, self.at_begin.pending):
            if not is_candidate(path, listed):
                continue
            record = read_record(self.store, self.root, path)
            some.append((path, record, files_in(self.store, self.root, path)))
            if sum(len(files) for *_, files in some) >= _FILES_AT_ONCE:
                yield self._with_footers(some, before)
                some = []
        if some:
            yield self._with_footers(some, before)

    def _with_footers(
        self, folders: Sequence[tuple[str, FolderRecord, list[StoredObject]]], before: Survey
    ) -> Sequence[Candidate]:
        now = survey(self.store, self.root)
        left_out, unsettled = before.left_out | now.left_out, self.at_begin.left_out & (before.left_out | now.left_out)
        pending = {folder_of(key, self.root) for key in unsettled & (before.pending | now.pending)}
        candidates: list[Candidate] = []
        for path, record, listed in folders:
            files: Sequence[TableFile] = ()
            try:
                if record.current:
                    self.hindered[path] = _BUSY
                else:
                    files = self.footers(found for found in listed if found.key not in left_out)
                    self._cover(files)
                    # What was rolled back has rows until the connector replaces it by a placeholder.
                    undone = self.footers(found for found in listed if found.key in unsettled)
                    if path in pending or any(file.rows for file in undone):
                        self.hindered[path] = _UNSETTLED
            except (FatalError, ValueError) as error:
                if record.is_unchanged():
                    self.leave(path, error)
                else:  # it has deleted files
                    self.hindered[path] = _BUSY
            else:
                candidates.append((path, record, files))
        return candidates

    def footers(self, files: Iterable[StoredObject]) -> Sequence[TableFile]:
        """The files with their footers."""
        read = partial(table_file, self.store)
        return [file for _, file in side_by_side(self._settings.max_write_workers, read, files)]

    def _cover(self, files: Sequence[TableFile]) -> None:
        """Make the table's schema have all columns of the files."""
        wanted = TableSchema()
        fixed = self._settings.column_types
        found = [TableSchema.from_arrow(schema).columns for schema in {file.schema for file in files}]
        for columns in found:
            wanted = wanted.merge(TableSchema({name: fixed.get(name, kind) for name, kind in columns.items()}))
        self.table = self._schema.extend(wanted) if self._writes else self.table.merge(wanted)
        for name in (name for columns in found for name in columns):
            if name not in self.table.columns:
                raise ValueError(f"its column {name!r} differs from another one only in capitals")

    def work(
        self,
        candidates: Sequence[Candidate],
        bins: Callable[[str, Sequence[TableFile]], Iterable[Bin]],
        erased: Sequence[str] = (),
    ) -> Iterator[tuple[str, Sequence[Change]]]:
        """Merge the bins of each folder, several folders at a time, and yield those where anything was changed.

        Args:
            candidates: the folders.
            bins: the files of a folder that become one.
            erased: conditions in SQL for rows to leave out.

        Raises:
            ConnectorError: of the store or the catalog, on the way; the next run completes what was begun.
        """

        def change(candidate: Candidate) -> tuple[Sequence[Change], LeftError | SkippedError | None]:
            path, record, files = candidate
            changes, left = [], None
            for each in bins(path, files):
                try:
                    changes += [made] if (made := self._change(path, record, each, erased)) else []
                except LeftError as error:  # the folder's other files may be sound
                    left = left or error
                except SkippedError as error:
                    return changes, error
            if (erased or left) and not record.is_unchanged():  # the rows may be in another file, and this one gone
                return changes, SkippedError()
            return changes, left

        at_once = _FOLDERS_AT_ONCE if runs_locally(self._settings) else _FOLDERS_AT_ONCE_ON_A_CLUSTER
        for (path, *_), (changes, error) in side_by_side(at_once, change, candidates):
            if changes:
                yield path, changes
            if isinstance(error, SkippedError):
                print_line(f"{path or '.'}: another run was quicker")
                self.hindered[path] = _BUSY
            elif error:
                self.leave(path, error, "files left as they are" if changes else "left as it is")

    def _change(self, path: str, record: FolderRecord, files: Bin, erased: Sequence[str]) -> Change | None:
        if not self._writes and not erased:
            return Change(files, 0, files.rows, 0)
        with ExitStack() as ends:
            try:
                prepared = ends.enter_context(self.merger.prepared(path, files.files, erased, writes=self._writes))
            except FatalError as error:  # nothing was changed, so other folders can go on
                raise LeftError(str(error)) from None
            if erased and not prepared.gone:
                return None
            size = self.merger.commit(record, prepared) if self._writes else 0
            return Change(files, prepared.gone, prepared.rows, size)

    def leave(self, path: str, error: object, what: str = "left as it is") -> None:
        """Report a folder that stays as it is, or some files of it."""
        self.left.add(path)
        print_line(f"{path or '.'}: {what}: {error}")

    def require_nothing_left(self) -> None:
        """Fail if folders had to be left.

        Raises:
            FatalError: so.
        """
        if self.left:
            left = counted(len(self.left), "folder")
            raise FatalError("going through the table", f"{left} had to be left", "The reasons are above")

    def partition_values(self, path: str) -> dict[str, str | None]:
        """The values in a folder's path, ``None`` for a null."""
        return partition_values(self.root, path, self.spec.null_value)
