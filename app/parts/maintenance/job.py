"""Processes the folders of a table for ``compact`` and ``erase``."""

from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

from app.config.settings import Settings
from app.errors import ConfigError, FatalError
from app.formatting import counted
from app.journal.journal import Survey, survey
from app.model import DataFile
from app.parts.commands import print_line
from app.parts.maintenance.merger import Merger, SharedSession, SkippedError
from app.parts.maintenance.record import FolderRecord, open_records, read_record, staged_files
from app.parts.maintenance.removal import EVERY_ROW, NOTHING, Removal
from app.parts.maintenance.spark_merge import may_match
from app.parts.maintenance.table import TableAtWork
from app.spark.scratch import scratch_folder
from app.storage.base import StoredObject
from app.work_pool import side_by_side

_Item = TypeVar("_Item")
_Folder = tuple[str, FolderRecord, list[StoredObject]]  # the path below the table, the record, the data files

_CHEAP_BYTES = 1 << 20
_FILES_AT_ONCE = 5_000  # number of files whose entries and footers are in memory at the same time
_LEASE = timedelta(minutes=10)  # then another run takes over; the lease saves work, but safety doesn't depend on it
_STAGED_AGE = timedelta(days=1)
_FOLDERS_AT_ONCE_ON_A_CLUSTER = 8
_MOST_FOLDERS_AT_ONCE = 4
_BUSY = f"another run is working on it, or was interrupted in the last {_LEASE.seconds // 60} minutes"
_UNSETTLED = "it contains files of a batch in progress or rolled back; the connector completes or removes them"


@dataclass(frozen=True, slots=True)
class Bin:
    """Files to merge into one file. ``reasons`` says why, if the number of files is not the only reason."""

    files: Sequence[DataFile]
    reasons: Sequence[str] = ()

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def size(self) -> int:
        """The total size of the files in bytes."""
        return sum(file.size for file in self.files)


class Change(NamedTuple):
    """A merged bin: its files, and the rows and bytes of the merged file (0 bytes if no file was written)."""

    files: Bin
    rows: int
    size: int


class Candidate(NamedTuple):
    """A folder to process: its path below the table, its record, and its files."""

    path: str
    record: FolderRecord
    files: Sequence[DataFile]


def by_size(items: Iterable[_Item], most: int, size_of: Callable[[_Item], int]) -> Iterator[list[_Item]]:
    """Divide the items into groups with a total size of at most ``most``. A larger item is a separate group."""
    group: list[_Item] = []
    size = 0
    for item in items:
        if group and size + size_of(item) > most:
            yield group
            group, size = [], 0
        group.append(item)
        size += size_of(item)
    if group:
        yield group


class _Sized(Protocol):
    @property
    def size(self) -> int: ...


_File = TypeVar("_File", bound=_Sized)


def bins_worth_merging(files: Iterable[_File], target_bytes: int) -> Iterator[list[_File]]:
    """Divide the files below ``target_bytes`` into bins of at most ``target_bytes``. A bin may have one file or none.

    A bin omits its largest file if this file exceeds one megabyte and twice the total size of the other files.
    Otherwise, each run would rewrite a large merged file because of a few new small files.
    """
    size_of = attrgetter("size")
    small = sorted((file for file in files if file.size < target_bytes), key=size_of)
    for bin_ in by_size(small, target_bytes, size_of):
        others = sum(map(size_of, bin_[:-1]))
        while bin_ and bin_[-1].size > max(_CHEAP_BYTES, 2 * others):
            bin_.pop()
            others -= bin_[-1].size if bin_ else 0
        yield bin_


@contextmanager
def new_job(settings: Settings, options: Namespace) -> Iterator["Job"]:
    """Yield a job for the folders that match ``--folder``. Without this option, the job processes all folders."""
    table = TableAtWork(settings, writes=not options.dry_run)
    if "session" not in options:  # the first table of the run
        options.session = SharedSession(settings, options.ends)
    options.session.renew()
    with scratch_folder() as scratch:
        yield Job(table, Merger(table, scratch, options.session.get), options.folder)


class Job:
    """One run of a command for a table.

    ``hindered`` contains the folders that were not processed completely, with the reason. A retry may process these
    folders. ``failed`` contains the folders with an error.
    """

    def __init__(self, table: TableAtWork, merger: Merger, globs: Sequence[str]) -> None:
        self.table = table
        self.merger = merger
        self._globs = globs
        self.hindered: dict[str, str] = {}
        self.failed: set[str] = set()
        self._has_any = False  # whether a folder matches one of the patterns

    def resume(self) -> None:
        """Complete or roll back the interrupted changes of other runs, and delete old temporary files of executors."""
        table, now = self.table, datetime.now(UTC)
        for record, replacement, stored in open_records(table.store, table.root):
            folder = replacement.folder
            if now - stored.last_modified < _LEASE:
                print_line(f"{folder or '.'}: {_BUSY}")
                continue
            message = "completed an interrupted change of another run"
            try:
                if not self.merger.resume(record, replacement):
                    message = "rolled back an interrupted change of another run; run an interrupted erase again"
            except SkippedError:
                message = "another run has completed it"
            except FatalError as error:  # the run can process the other folders
                self.fail(folder, error)
                continue
            print_line(f"{folder or '.'}: {message}")
        staged = staged_files(table.store, table.root)
        table.delete([stored.key for stored in staged if now - stored.last_modified > _STAGED_AGE])

    def candidates(self, is_candidate: Callable[[str, Sequence[StoredObject]], bool]) -> Iterator[Sequence[Candidate]]:
        """Yield groups of folders. A folder's ``files`` omit batches that are pending or rolled back.

        For each folder, the job first reads the record, then lists the files, and then reads the journals. The model
        in ``tests/model`` requires this order.
        """
        table = self.table
        before = survey(table.store, table.root)
        for folders in by_size(self._folders(is_candidate), _FILES_AT_ONCE, lambda folder: len(folder[2])):
            yield self._to_candidates(folders, before)
        if self._globs and not self._has_any:
            cause = f"no folder of the table matches {' or '.join(self._globs)}"
            raise ConfigError("processing the table", cause, "Check --folder")

    def _folders(self, is_candidate: Callable[[str, Sequence[StoredObject]], bool]) -> Iterator[_Folder]:
        table = self.table
        for path, listed in table.folders(self._globs):
            self._has_any = True
            if is_candidate(path, listed):
                yield path, read_record(table.store, table.root, path), table.files_in(path)

    def _to_candidates(self, folders: Sequence[_Folder], before: Survey) -> Sequence[Candidate]:
        table = self.table
        now = survey(table.store, table.root)
        left_out = before.left_out | now.left_out
        unsettled = table.at_begin.left_out & left_out
        pending = {table.folder_of(key) for key in unsettled & (before.pending | now.pending)}
        candidates: list[Candidate] = []
        for path, record, listed in folders:
            files: Sequence[DataFile] = ()
            try:
                if record.current:
                    self.hindered[path] = _BUSY
                else:
                    files = table.with_footers(stored for stored in listed if stored.key not in left_out)
                    table.cover(files)
                    # A rolled-back file contains rows until the connector replaces this file by a placeholder.
                    undone = table.with_footers(stored for stored in listed if stored.key in unsettled)
                    if path in pending or any(file.rows for file in undone):
                        self.hindered[path] = _UNSETTLED
            except (FatalError, ValueError) as error:
                if record.is_unchanged():
                    self.fail(path, error)
                else:  # another run has changed the folder
                    self.hindered[path] = _BUSY
            else:
                candidates.append(Candidate(path, record, files))
        return candidates

    def matching(self, candidates: Sequence[Candidate], removal: Removal, option: str) -> Sequence[bool]:
        """Return whether each folder may contain rows that meet the conditions. Raise ``ConfigError`` if not valid."""
        if removal == EVERY_ROW:
            return [True] * len(candidates)
        partitions = [self.table.partition_values(path) for path, *_ in candidates]
        try:
            return may_match(self.merger.session(), partitions, removal.conditions, self.table.schema.columns)
        except ValueError as error:
            conditions = f" {option} ".join(["", *removal.conditions])
            raise ConfigError(f"understanding{conditions}", str(error)) from None

    def work(
        self,
        candidates: Sequence[Candidate],
        bins: Callable[[Sequence[DataFile]], Iterable[Bin]],
        removal: Removal = NOTHING,
    ) -> Iterator[tuple[str, Sequence[Change]]]:
        """Merge the bins of each folder, and yield the changed folders. Several folders are processed in parallel.

        The rows of the removal are omitted. After an error, the next run completes the interrupted change or rolls it
        back.
        """
        spark = self.table.settings.spark
        at_once = min(_MOST_FOLDERS_AT_ONCE, spark.cores) if spark.is_local else _FOLDERS_AT_ONCE_ON_A_CLUSTER
        for (path, *_), (changes, error) in side_by_side(at_once, partial(self._change, bins, removal), candidates):
            if changes:
                yield path, changes
            if isinstance(error, SkippedError):
                print_line(f"{path or '.'}: another run has changed it first")
                self.hindered[path] = _BUSY
            elif error:
                self.fail(path, error, "some files not changed" if changes else "not changed")

    def _change(
        self, bins: Callable[[Sequence[DataFile]], Iterable[Bin]], removal: Removal, candidate: Candidate
    ) -> tuple[Sequence[Change], FatalError | SkippedError | None]:
        """Merge the bins of one folder. Return the changes, and the error that prevented the next changes, if any."""
        path, record, files = candidate
        changes: list[Change] = []
        failure: FatalError | SkippedError | None = None
        try:
            for bin_ in bins(files):
                with self.merger.folder() as scratch:
                    try:
                        replacement, merged = self.merger.prepare(path, bin_.files, removal, Path(scratch))
                    except FatalError as error:  # the bin is unchanged, and other bins may be valid
                        failure = failure or error
                        continue
                    if not removal.is_erasure or replacement.rows < bin_.rows:
                        size = self.merger.commit(record, replacement, merged) if self.table.writes else 0
                        changes.append(Change(bin_, replacement.rows, size))
        except SkippedError as error:
            return changes, error
        if (removal.is_erasure or failure) and not record.is_unchanged():  # another run may have moved the rows
            failure = SkippedError()
        return changes, failure

    def fail(self, path: str, error: object, outcome: str = "not changed") -> None:
        """Print the error of a folder that was processed only in part or not at all. Add it to ``failed``."""
        self.failed.add(path)
        print_line(f"{path or '.'}: {outcome}: {error}")

    def require_no_failure(self) -> None:
        if self.failed:
            cause = f"{counted(len(self.failed), 'folder')} failed"
            raise FatalError("processing the table", cause, "The reasons are above")
