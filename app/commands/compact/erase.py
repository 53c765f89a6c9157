"""``python main.py erase``: deletes rows that meet conditions, or folders of a time long ago."""

from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import takewhile
from time import sleep

from app.commands.compact.folders import Bin, TableFile
from app.commands.compact.job import Candidate, Change, Job
from app.commands.compact.merger import EVERY_ROW
from app.commands.compact.record import staged_files
from app.commands.output import print_line
from app.config.settings import Settings
from app.errors import ConfigError
from app.formatting import counted
from app.journal.survey import survey
from app.service.lake import dead_letter_address
from app.spark.merge import may_match
from app.table.layout import TIME_COLUMNS, dead_letter_root, journal_folder

_TOGETHER = 256 << 20  # bytes
_PAUSES = (0, *(5 << n for n in range(7)))  # seconds before each search; together more than a lease
_NOT_SEARCHED = """\
Not searched: records that are in Kafka only, or in files written after this run began: run it again once they are in
the table. Older versions that the bucket keeps, and uploads that were cut off."""


def erase(settings: Settings, options: Namespace) -> int:
    """Delete rows, or count them.

    Raises:
        ConfigError: there is no such table, or its folders do not say their time.
        ConnectorError: the store, the catalog or Spark fails, or folders had to be left as they are.
    """
    if settings.is_iceberg:
        raise ConfigError(
            "erasing rows", "the table is one of Iceberg", "Use DELETE FROM of Spark or Trino, and expire_snapshots"
        )
    with Job(settings, options.folder, writes=not options.dry_run) as job:
        conditions: Sequence[str] = options.where or EVERY_ROW
        wanted = partial(_is_old, job, options.older_than) if options.older_than is not None else lambda _: True
        rows = files = 0
        folders: set[str] = set()
        for pause in _PAUSES[: 1 if options.dry_run else None]:
            if pause:
                print_line(f"waiting for {counted(len(job.hindered), 'folder')}: {', '.join({*job.hindered.values()})}")
                sleep(pause)
            if not options.dry_run:
                job.resume()
            for path, changes in _search(job, wanted, conditions):
                erased = sum(change.erased for change in changes)
                folders.add(path)
                rows += erased
                files += sum(len(change.files.files) for change in changes)
                print_line(f"{path or '.'}: {counted(erased, 'row')}")
            wanted = (job.hindered.keys() - job.left).__contains__
            if not job.hindered.keys() - job.left:
                break
        for path, reason in job.hindered.items():
            job.leave(path, reason, "not searched as a whole")
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
        chosen = candidates if conditions == EVERY_ROW else _matching(job, candidates, conditions)
        for path in {each[0] for each in candidates} - {each[0] for each in chosen}:
            job.hindered.pop(path, None)
        yield from job.work(chosen, _in_bins, conditions)


def _matching(job: Job, candidates: Sequence[Candidate], conditions: Sequence[str]) -> Sequence[Candidate]:
    """Folders that may have such rows, by their partition values."""
    partitions = [job.partition_values(path) for path, *_ in candidates]
    try:
        matching = may_match(job.session(), partitions, conditions, job.table.columns)
    except ValueError as error:
        raise ConfigError(f"understanding --where {' --where '.join(conditions)}", str(error)) from None
    return [one for one, may in zip(candidates, matching, strict=True) if may]


def _in_bins(_: str, files: Sequence[TableFile]) -> Iterator[Bin]:
    """Some files at a time, so that one with such rows does not make a large folder be written anew as a whole.

    Files without rows stay: the name of a merged one is to be taken for a day.
    """
    some: list[TableFile] = []
    for file in (each for each in files if each.rows):
        if some and sum(each.size for each in some) + file.size > _TOGETHER:
            yield Bin(some)
            some = []
        some.append(file)
    if some:
        yield Bin(some)


def _is_old(job: Job, age: timedelta, path: str) -> bool:
    """Whether the time that a folder stands for ended so long ago.

    Raises:
        ConfigError: the table has no folders of years.
    """
    if TIME_COLUMNS[0] not in job.spec.columns:
        raise ConfigError("finding old folders", "the table has no folders of years", "Use --where")
    values = job.partition_values(path)
    # With year and day, but without month, only the year says a time.
    parts = [values.get(name) for name in takewhile(job.spec.columns.__contains__, TIME_COLUMNS)]
    if not all(part and part.isdecimal() for part in parts):
        return False
    try:
        return _end(*(int(part) for part in parts if part)) < datetime.now(UTC) - age
    except (ValueError, OverflowError):  # no time at all, or one that Python does not know: the end of the year 9999
        return False


def _end(year: int, month: int | None = None, day: int | None = None, hour: int | None = None) -> datetime:
    """The end of a year, of a month, of a day, or of an hour."""
    if month is None:
        return datetime(year + 1, 1, 1, tzinfo=UTC)
    if day is None:
        return datetime(year + month // 12, month % 12 + 1, 1, tzinfo=UTC)
    start = datetime(year, month, day, hour or 0, tzinfo=UTC)
    return start + (timedelta(days=1) if hour is None else timedelta(hours=1))


def _leave_what_is_never_searched(job: Job) -> None:
    """Report the dead letter, also of batches that are not finished, and what executors of a cluster have left."""
    root = f"{dead_letter_root(job.root)}/"
    keys = {key for key in job.at_begin.pending & survey(job.store, job.root).pending if key.startswith(root)}
    dead = job.footers(found for found in job.store.list(root) if found.key.endswith(".parquet"))
    keys |= {file.key for file in dead if file.rows}
    if keys:
        what = f"{counted(len(keys), 'file')} may have such records: delete them by hand"
        job.leave(dead_letter_address(job.store.uri, job.root), what, "not searched")
    if staged := len(list(staged_files(job.store, job.root))):
        what = f"{counted(staged, 'file')} of a run on a cluster: run it again a day later"
        job.leave(journal_folder(job.root), what, "not searched")
