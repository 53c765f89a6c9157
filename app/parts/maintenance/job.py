"""Goes through a table's folders, for ``compact`` and ``erase``."""

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
from app.parts.maintenance.table import TableAtWork
from app.spark.scratch import scratch_folder
from app.storage.base import StoredObject
from app.work_pool import side_by_side

_Item = TypeVar("_Item")
_Folder = tuple[str, FolderRecord, list[StoredObject]]  # its path below the table, its record, its data files

_CHEAP_BYTES = 1 << 20
_FILES_AT_ONCE = 5_000  # of which the listing and the footers are in memory
_LEASE = timedelta(minutes=10)  # after which another run takes it over; it saves work, and nothing relies on it
_LEFT_OVER = timedelta(days=1)
_FOLDERS_AT_ONCE_ON_A_CLUSTER = 8
_MOST_FOLDERS_AT_ONCE = 4
_BUSY = f"another run is at it, or was cut off in the last {_LEASE.seconds // 60} minutes"
_UNSETTLED = "it has files of a batch that is not finished, or was rolled back; the connector finishes or removes them"


@dataclass(frozen=True, slots=True)
class Bin:
    """Files to merge into one. ``reasons`` are those other than their number."""

    files: Sequence[DataFile]
    reasons: Sequence[str] = ()

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def size(self) -> int:
        """Of all files, in bytes."""
        return sum(file.size for file in self.files)


class Change(NamedTuple):
    """The result for files that became one: its rows, and its bytes (0 if there is none)."""

    files: Bin
    rows: int
    size: int


class Candidate(NamedTuple):
    """A folder, by its path below the table, with its record, and those of its files that are to be worked on."""

    path: str
    record: FolderRecord
    files: Sequence[DataFile]


def by_size(items: Iterable[_Item], most: int, size_of: Callable[[_Item], int]) -> Iterator[list[_Item]]:
    """Yield the items in groups of this size at the most, or of a larger item alone."""
    some: list[_Item] = []
    size = 0
    for item in items:
        if some and size + size_of(item) > most:
            yield some
            some, size = [], 0
        some.append(item)
        size += size_of(item)
    if some:
        yield some


class _Sized(Protocol):
    @property
    def size(self) -> int: ...


_File = TypeVar("_File", bound=_Sized)


def bins_worth_merging(files: Iterable[_File], target_bytes: int) -> Iterator[list[_File]]:
    """Yield smaller files that may become one of so many bytes at the most; at times only one or none.

    The largest of such a group are left out while they have over a megabyte, and over twice the bytes of the others
    together. So where small files come again and again, a merged one is not written anew each time.
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
    """Yields a job for the block; ``--folder`` has patterns of its folders, without any it has all."""
    table = TableAtWork(settings, writes=not options.dry_run)
    if "session" not in options:  # it is the first table of the run
        options.session = SharedSession(settings, options.ends)
    options.session.renew()
    with scratch_folder() as scratch:
        yield Job(table, Merger(table, scratch, options.session.get), options.folder)


class Job:
    """One run over a table.

    ``hindered`` is why not all rows of some folders could be worked on, where another try may do; ``left`` are folders
    with an error.
    """

    def __init__(self, table: TableAtWork, merger: Merger, globs: Sequence[str]) -> None:
        self.table = table
        self.merger = merger
        self._globs = globs
        self.hindered: dict[str, str] = {}
        self.left: set[str] = set()
        self._has_any = False  # whether a folder is like one of the patterns

    def resume(self) -> None:
        """Complete or give up what runs have begun that were cut off, and delete what executors have left."""
        table, now = self.table, datetime.now(UTC)
        for record, replacement, found in open_records(table.store, table.root):
            folder = replacement.folder
            if now - found.last_modified < _LEASE:
                print_line(f"{folder or '.'}: {_BUSY}")
                continue
            said = "completed what another run had begun"
            try:
                if not self.merger.resume(record, replacement):
                    said = "given up what another run had begun; an erase that was cut off has to be run again"
            except SkippedError:
                said = "another run has completed it"
            except FatalError as error:  # the other folders can go on
                self.leave(folder, error)
                continue
            print_line(f"{folder or '.'}: {said}")
        staged = staged_files(table.store, table.root)
        table.delete([found.key for found in staged if now - found.last_modified > _LEFT_OVER])

    def candidates(self, is_candidate: Callable[[str, Sequence[StoredObject]], bool]) -> Iterator[Sequence[Candidate]]:
        """Yield folders, some at a time, with those of their files that are in the table for good.

        For each folder the record is read first, then the files are listed, then the journals are read: the order of
        the model.
        """
        table = self.table
        before = survey(table.store, table.root)
        for some in by_size(self._folders(is_candidate), _FILES_AT_ONCE, lambda folder: len(folder[2])):
            yield self._settled(some, before)
        if self._globs and not self._has_any:
            cause = f"no folder of the table is like {' or '.join(self._globs)}"
            raise ConfigError("going through the table", cause, "Check --folder")

    def _folders(self, is_candidate: Callable[[str, Sequence[StoredObject]], bool]) -> Iterator[_Folder]:
        table = self.table
        for path, listed in table.folders(self._globs):
            self._has_any = True
            if is_candidate(path, listed):
                yield path, read_record(table.store, table.root, path), table.files_in(path)

    def _settled(self, folders: Sequence[_Folder], before: Survey) -> Sequence[Candidate]:
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
                    files = table.with_footers(found for found in listed if found.key not in left_out)
                    table.cover(files)
                    # What was rolled back has rows until the connector replaces it by a placeholder.
                    undone = table.with_footers(found for found in listed if found.key in unsettled)
                    if path in pending or any(file.rows for file in undone):
                        self.hindered[path] = _UNSETTLED
            except (FatalError, ValueError) as error:
                if record.is_unchanged():
                    self.leave(path, error)
                else:  # it has deleted files
                    self.hindered[path] = _BUSY
            else:
                candidates.append(Candidate(path, record, files))
        return candidates

    def work(
        self,
        candidates: Sequence[Candidate],
        bins: Callable[[Sequence[DataFile]], Iterable[Bin]],
        erased: Sequence[str] = (),
    ) -> Iterator[tuple[str, Sequence[Change]]]:
        """Merge the bins of each folder, several folders at a time, and yield those where anything was changed.

        Rows that meet all conditions in SQL of ``erased`` are left out. After an error on the way the next run
        completes what was begun, or gives it up.
        """
        spark = self.table.settings.spark
        at_once = min(_MOST_FOLDERS_AT_ONCE, spark.cores) if spark.is_local else _FOLDERS_AT_ONCE_ON_A_CLUSTER
        for (path, *_), (changes, error) in side_by_side(at_once, partial(self._change, bins, erased), candidates):
            if changes:
                yield path, changes
            if isinstance(error, SkippedError):
                print_line(f"{path or '.'}: another run was quicker")
                self.hindered[path] = _BUSY
            elif error:
                self.leave(path, error, "files left as they are" if changes else "left as it is")

    def _change(
        self, bins: Callable[[Sequence[DataFile]], Iterable[Bin]], erased: Sequence[str], candidate: Candidate
    ) -> tuple[Sequence[Change], FatalError | SkippedError | None]:
        """Plan, prepare and commit; returns what was changed, and what keeps the rest from it."""
        path, record, files = candidate
        changes: list[Change] = []
        left: FatalError | SkippedError | None = None
        try:
            for each in bins(files):
                with self.merger.folder() as scratch:
                    try:
                        replacement, merged = self.merger.prepare(path, each.files, erased, Path(scratch))
                    except FatalError as error:  # nothing was changed, and the folder's other files may be sound
                        left = left or error
                        continue
                    if not erased or replacement.rows < each.rows:
                        size = self.merger.commit(record, replacement, merged) if self.table.writes else 0
                        changes.append(Change(each, replacement.rows, size))
        except SkippedError as error:
            return changes, error
        if (erased or left) and not record.is_unchanged():  # the rows may be in another file, and this one gone
            left = SkippedError()
        return changes, left

    def leave(self, path: str, error: object, what: str = "left as it is") -> None:
        """Report a folder that stays as it is, or some files of it."""
        self.left.add(path)
        print_line(f"{path or '.'}: {what}: {error}")

    def require_nothing_left(self) -> None:
        if self.left:
            left = counted(len(self.left), "folder")
            raise FatalError("going through the table", f"{left} had to be left", "The reasons are above")
