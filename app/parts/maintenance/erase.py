"""``python main.py erase``: deletes rows that meet conditions, or folders of a time long ago; what refuses that."""

from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import compress, takewhile
from operator import attrgetter
from time import sleep, time
from zoneinfo import ZoneInfo

from app.commands import print_line
from app.config.settings import Settings
from app.errors import ConfigError
from app.formatting import counted, duration
from app.journal.journal import survey
from app.model import DataFile
from app.parts.maintenance.job import Bin, Candidate, Change, Job, by_size, new_job
from app.parts.maintenance.merger import EVERY_ROW
from app.parts.maintenance.record import keep_maintenance, staged_files
from app.parts.maintenance.spark_merge import may_match
from app.parts.maintenance.table import TableAtWork
from app.storage.base import ObjectStore
from app.storage.probe import own_object
from app.table.layout import TIME_COLUMNS, dead_letter_root, journal_folder

_TOGETHER = 256 << 20  # bytes
_PAUSES = (0, *(5 << n for n in range(7)))  # seconds before each search; together more than a lease
_MOST_OFF = 3600.0  # seconds between two clocks
_NOT_SEARCHED = """\
Not searched: records that are in Kafka only, or in files written after this run began: run it again once they are in
the table. Older versions that the bucket keeps, and uploads that were cut off."""


def erase(settings: Settings, options: Namespace) -> int:
    """Delete rows, or count them; an error if not all could be searched."""
    if settings.catalog_kind.is_table:
        from app.parts.maintenance.iceberg import erase_iceberg  # noqa: PLC0415 - loads pyiceberg

        return erase_iceberg(settings, options)
    if not options.where:  # no row is read: COLUMN_TYPES that contradict the table must not keep old folders
        settings = settings.model_copy(update={"column_types": {}})
    with new_job(settings, options) as job:
        conditions: Sequence[str] = options.where or EVERY_ROW
        wanted: Callable[[str], bool] = partial(_is_old, job.table, options.older_than)
        refuse_clock(options, job.table.store, job.table.root)
        listed = ((sum(file.size for file in found), wanted(path)) for path, found in job.table.folders(()))
        refuse_most(options, job.table.store, job.table.root, listed)
        rows = files = 0
        folders: set[str] = set()
        for pause in _PAUSES[: 1 if options.dry_run else None]:
            if pause:
                print_line(f"waiting for {counted(len(job.hindered), 'folder')}: {', '.join({*job.hindered.values()})}")
                sleep(pause)
            if not options.dry_run:
                job.resume()
            for path, changes in _search(job, wanted, conditions):
                erased = sum(change.files.rows - change.rows for change in changes)
                folders.add(path)
                rows += erased
                files += sum(len(change.files.files) for change in changes)
                print_line(f"{path or '.'}: {counted(erased, 'row')}")
            wanted = (job.hindered.keys() - job.left).__contains__
            if not job.hindered.keys() - job.left:
                break
        for path, reason in job.hindered.items():
            job.leave(path, reason, "not searched as a whole")
        note_erased(options, job.table.store, job.table.root, rows, len(job.left))
        would = "would be erased" if options.dry_run else "erased"
        print_line(f"{counted(rows, 'row')} {would} from {counted(files, 'file')} in {counted(len(folders), 'folder')}")
        if options.where:
            _leave_what_is_never_searched(job)
            print_line(_NOT_SEARCHED)
        job.require_nothing_left()
    return 0


def _search(
    job: Job, is_wanted: Callable[[str], bool], conditions: Sequence[str]
) -> Iterator[tuple[str, Sequence[Change]]]:
    """Erase rows of these folders once; ``job.hindered`` then has those of them that are to be searched again."""
    job.hindered.clear()
    for candidates in job.candidates(lambda path, _: is_wanted(path)):
        matching = _matching(job, candidates, conditions)
        for (path, *_), may in zip(candidates, matching, strict=True):
            if not may:
                job.hindered.pop(path, None)
        yield from job.work(list(compress(candidates, matching)), _in_bins, conditions)


def _matching(job: Job, candidates: Sequence[Candidate], conditions: Sequence[str]) -> Sequence[bool]:
    """Whether each folder may have such rows, by its partition values."""
    if conditions == EVERY_ROW:
        return [True] * len(candidates)
    partitions = [job.table.partition_values(path) for path, *_ in candidates]
    try:
        return may_match(job.merger.session(), partitions, conditions, job.table.schema.columns)
    except ValueError as error:
        raise ConfigError(f"understanding --where {' --where '.join(conditions)}", str(error)) from None


def _in_bins(files: Sequence[DataFile]) -> Iterator[Bin]:
    """Some files at a time, so that one with such rows does not make a large folder be written anew as a whole.

    Files without rows stay: the name of a merged one is to be taken for a day.
    """
    return map(Bin, by_size((each for each in files if each.rows), _TOGETHER, attrgetter("size")))


def _is_old(table: TableAtWork, age: timedelta | None, path: str) -> bool:
    if age is None:
        return True
    if TIME_COLUMNS[0] not in table.spec.columns:
        raise ConfigError("finding old folders", "the table has no folders of years", "Use --where")
    return has_ended(table.partition_values(path), age, table.spec.time_zone)


def _leave_what_is_never_searched(job: Job) -> None:
    """Report the dead letter, also of batches that are not finished, and what executors of a cluster have left."""
    store, table_root = job.table.store, job.table.root
    root = f"{dead_letter_root(table_root)}/"
    keys = {key for key in job.table.at_begin.pending & survey(store, table_root).pending if key.startswith(root)}
    dead = job.table.with_footers(found for found in store.list(root) if found.key.endswith(".parquet"))
    keys |= {file.key for file in dead if file.rows}
    if keys:
        what = f"{counted(len(keys), 'file')} may have such records: delete them by hand"
        job.leave(f"{store.uri}/{dead_letter_root(table_root)}", what, "not searched")
    if staged := len(list(staged_files(store, table_root))):
        what = f"{counted(staged, 'file')} of a run on a cluster: run it again a day later"
        job.leave(journal_folder(table_root), what, "not searched")


def has_ended(values: Mapping[str, str | None], age: timedelta, zone: str) -> bool:
    """Whether the time that partition values say, in this zone, ended so long ago; a null says none."""
    # With year and day, but without month, only the year says a time.
    texts = [values[name] or "" for name in takewhile(values.__contains__, TIME_COLUMNS)]
    if not (texts and all(map(str.isdecimal, texts))):
        return False
    try:
        parts = tuple(map(int, texts))  # of more than 4,300 digits Python makes none
        year, month, day, hour = (*parts, *(1, 1, 0)[len(parts) - 1 :])
        datetime(year, month, day, hour)
        limit = (datetime.now(UTC) - age).astimezone(ZoneInfo(zone))
    except (ValueError, OverflowError):
        return False
    return parts < tuple(limit.timetuple())[: len(parts)]


def refuse_clock(options: Namespace, store: ObjectStore, root: str) -> None:
    """Refuse to erase by age while this machine's clock is not the store's. A local disk has no clock to compare."""
    if options.older_than is None or options.dry_run:
        return
    with own_object(journal_folder(root), store.delete) as key:
        store.overwrite(key, b"{}")
        ahead = [(datetime.now(UTC) - each.last_modified).total_seconds() for each in store.list(key)]
    if (off := max(ahead, key=abs, default=0.0)) and abs(off) > _MOST_OFF:
        keep_maintenance(store, root, clock=off)
        cause = f"this machine's clock is {duration(abs(off))} {'ahead of' if off > 0 else 'behind'} the store's"
        raise ConfigError("erasing old rows", cause, "Set this machine's clock (NTP); nothing was erased")


def refuse_most(options: Namespace, store: ObjectStore, root: str, sizes: Iterable[tuple[int, bool]]) -> None:
    """Refuse more than ``--at-most``; ``sizes`` are bytes of the table, and whether they would be erased."""
    erased = total = 0
    for size, is_erased in sizes if options.at_most else ():
        erased, total = erased + size * is_erased, total + size
    if total and (percent := 100 * erased / total) > options.at_most:
        if not options.dry_run:
            keep_maintenance(store, root, refused=percent)
        cause = f"these are {percent:.0f} % of the table's {total:,} bytes, and --at-most is {options.at_most}"
        hint = "If all may go: with KEEP, set KEEP_CONFIRMED to it; with the command, leave it out"
        raise ConfigError("erasing old rows", cause, hint)


def note_erased(options: Namespace, store: ObjectStore, root: str, rows: int, left: int = 0) -> None:
    """Store that what is old in the table was erased, but for folders that were left."""
    if options.older_than is not None and not options.folder and not options.dry_run:
        age = options.older_than.total_seconds()
        keep_maintenance(store, root, erased=time(), age=age, rows=rows, left=left, refused=0, clock=0)
