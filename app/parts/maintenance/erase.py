"""Runs ``python main.py erase``: deletes rows that meet conditions, or old folders."""

from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from itertools import compress
from operator import attrgetter
from time import sleep

from app.config.settings import Settings
from app.errors import ConfigError
from app.formatting import counted
from app.journal.journal import survey
from app.model import DataFile
from app.parts.commands import print_line
from app.parts.maintenance.erase_checks import has_ended, note_erased, refuse_clock, refuse_most
from app.parts.maintenance.job import Bin, Change, Job, by_size, new_job
from app.parts.maintenance.record import staged_files
from app.parts.maintenance.removal import EVERY_ROW, Removal
from app.parts.maintenance.table import TableAtWork
from app.table.layout import TIME_COLUMNS, dead_letter_root, journal_folder

_BIN_BYTES = 256 << 20
_PAUSES = (0, *(5 << n for n in range(7)))  # seconds before each search; the sum is longer than a lease
_NOT_SEARCHED = """\
Not searched: records that are only in Kafka, or in files written after this run began. Run erase again once they are
in the table. Also not searched: older versions that the bucket keeps, and incomplete uploads."""


def erase(settings: Settings, options: Namespace) -> int:
    """Delete rows; in a dry run, count the rows. Raise ``FatalError`` if a folder could not be searched."""
    if settings.catalog_kind.is_table:
        from app.parts.maintenance.iceberg import erase_iceberg  # noqa: PLC0415 - loads pyiceberg

        return erase_iceberg(settings, options)
    if not options.where:  # no row is read, so wrong COLUMN_TYPES must not prevent the deletion
        settings = settings.model_copy(update={"column_types": {}})
    with new_job(settings, options) as job:
        removal = Removal(options.where) if options.where else EVERY_ROW
        is_chosen: Callable[[str], bool] = partial(_is_old, job.table, options.older_than)
        refuse_clock(options, job.table.store, job.table.root)
        sizes = ((sum(file.size for file in files), is_chosen(path)) for path, files in job.table.folders(()))
        refuse_most(options, job.table.store, job.table.root, sizes)
        rows = files = 0
        folders: set[str] = set()
        for pause in _PAUSES[: 1 if options.dry_run else None]:
            if pause:
                print_line(f"waiting for {counted(len(job.hindered), 'folder')}: {', '.join({*job.hindered.values()})}")
                sleep(pause)
            if not options.dry_run:
                job.resume()
            for path, changes in _search(job, is_chosen, removal):
                erased = sum(change.files.rows - change.rows for change in changes)
                folders.add(path)
                rows += erased
                files += sum(len(change.files.files) for change in changes)
                print_line(f"{path or '.'}: {counted(erased, 'row')}")
            is_chosen = (job.hindered.keys() - job.failed).__contains__
            if not job.hindered.keys() - job.failed:
                break
        for path, reason in job.hindered.items():
            job.fail(path, reason, "not searched completely")
        note_erased(options, job.table.store, job.table.root, rows, len(job.failed))
        would = "would be erased" if options.dry_run else "erased"
        print_line(f"{counted(rows, 'row')} {would} from {counted(files, 'file')} in {counted(len(folders), 'folder')}")
        if options.where:
            _report_unsearched_files(job)
            print_line(_NOT_SEARCHED)
        job.require_no_failure()
    return 0


def _search(job: Job, is_chosen: Callable[[str], bool], removal: Removal) -> Iterator[tuple[str, Sequence[Change]]]:
    """Search each chosen folder, and erase rows. Afterwards ``job.hindered`` contains the folders to search again."""
    job.hindered.clear()
    for candidates in job.candidates(lambda path, _: is_chosen(path)):
        matching = job.matching(candidates, removal, "--where")
        for (path, *_), may in zip(candidates, matching, strict=True):
            if not may:
                job.hindered.pop(path, None)
        yield from job.work(list(compress(candidates, matching)), _in_bins, removal)


def _in_bins(files: Sequence[DataFile]) -> Iterator[Bin]:
    """Divide the files into bins, so that rows to erase in one file do not cause a rewrite of a large folder.

    Files without rows stay, because an empty file must occupy the name of a merged file for a day.
    """
    return map(Bin, by_size((file for file in files if file.rows), _BIN_BYTES, attrgetter("size")))


def _is_old(table: TableAtWork, age: timedelta | None, path: str) -> bool:
    if age is None:
        return True
    if TIME_COLUMNS[0] not in table.spec.columns:
        raise ConfigError("finding old folders", "the table has no folders of years", "Use --where")
    return has_ended(table.partition_values(path), age, table.spec.time_zone)


def _report_unsearched_files(job: Job) -> None:
    """Report dead-letter files (including files of batches in progress), and temporary files of a Spark cluster."""
    store, table_root = job.table.store, job.table.root
    root = f"{dead_letter_root(table_root)}/"
    keys = {key for key in job.table.at_begin.pending & survey(store, table_root).pending if key.startswith(root)}
    dead = job.table.with_footers(stored for stored in store.list(root) if stored.key.endswith(".parquet"))
    keys |= {file.key for file in dead if file.rows}
    if keys:
        reason = f"{counted(len(keys), 'file')} may contain these records: delete them manually"
        job.fail(f"{store.uri}/{dead_letter_root(table_root)}", reason, "not searched")
    if staged := len(list(staged_files(store, table_root))):
        reason = f"{counted(staged, 'file')} of a run on a cluster: run erase again a day later"
        job.fail(journal_folder(table_root), reason, "not searched")
