"""``python main.py compact``: merges small files of the table, and brings old ones to the table's types."""

from argparse import Namespace
from collections.abc import Sequence

from app.commands.compact.folders import Planner
from app.commands.compact.job import Change, Job
from app.commands.output import print_line
from app.config.settings import Settings
from app.formatting import counted
from app.storage.base import StoredObject

_MEGABYTE = 1 << 20
_ICEBERG = """\
{table} is a table of Iceberg, whose engines merge its files. In Spark, with the catalog under the name lake:
  CALL lake.system.rewrite_data_files(table => '{table}')
  CALL lake.system.expire_snapshots(table => '{table}')
  CALL lake.system.remove_orphan_files(table => '{table}')
In Trino: ALTER TABLE {table} EXECUTE optimize
"""


def compact(settings: Settings, options: Namespace) -> int:
    """Merge files, or list what would be merged.

    Raises:
        ConfigError: there is no such table.
        ConnectorError: the store, the catalog or Spark fails, or folders had to be left as they are.
    """
    if settings.is_iceberg:
        print_line(_ICEBERG.format(table=f"{settings.catalog_namespace}.{settings.table}").rstrip())
        return 0
    with Job(settings, options.folder, writes=not options.dry_run) as job:
        planner = Planner(
            job.schema_changed, options.target_mb * _MEGABYTE, options.when_cold, keeps_names=job.registrar.is_needed
        )
        if not options.dry_run:
            job.resume()
        folders = before = after = warm = 0

        def is_candidate(_: str, files: Sequence[StoredObject]) -> bool:
            nonlocal warm
            if not planner.is_candidate(files):
                return False
            is_cold = planner.is_cold(files)
            warm += not is_cold
            return is_cold

        for candidates in job.candidates(is_candidate):
            for path, changes in job.work(candidates, lambda _, files: planner.plan(files, job.table)):
                folders += 1
                before += sum(len(change.files.files) for change in changes)
                after += sum(change.rows > 0 for change in changes)
                print_line(_line(path, changes))
        would = "would become" if options.dry_run else "became"
        print_line(f"{counted(folders, 'folder')}: {counted(before, 'file')} {would} {after:,}")
        if warm:
            print_line(f"left for later: {counted(warm, 'folder')} with files younger than --when-cold")
        job.require_nothing_left()
    return 0


def _line(path: str, changes: Sequence[Change]) -> str:
    files = sum(len(change.files.files) for change in changes)
    size = sum(change.files.size for change in changes)
    new = sum(change.rows > 0 for change in changes)
    new_size = sum(change.size for change in changes)
    reasons = sorted({reason for change in changes for reason in change.files.reasons})
    return (
        f"{path or '.'}: {counted(files, 'file')}, {size:,} bytes → {counted(new, 'file')}"
        + (f", {new_size:,} bytes" if new_size else "")
        + (f" ({', '.join(reasons)})" if reasons else "")
    )
