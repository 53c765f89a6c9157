"""Runs ``python main.py compact``: merges small files of the table, and converts files to the table's types."""

import time
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from app.config.settings import Settings
from app.formatting import counted, duration
from app.model import DataFile
from app.parts.commands import print_line
from app.parts.maintenance.job import Bin, bins_worth_merging, new_job
from app.parts.maintenance.record import keep_maintenance
from app.parts.maintenance.removal import Removal, removal_of
from app.parts.maintenance.table import TableAtWork
from app.storage.base import StoredObject
from app.table.layout import is_merged, schema_key
from app.table.parquet_reader import schema_of
from app.table.schema import TableSchema
from app.table.type_names import type_name

_WHILE_KEPT = timedelta(days=1)  # an empty file occupies the name of a merged file, so that a late upload fails
_MEGABYTE = 1 << 20
_CODEC = "ZSTD"


def compact(settings: Settings, options: Namespace) -> int:
    """Merge files; in a dry run, list the files to merge. Raise ``FatalError`` if a folder could not be processed."""
    if settings.catalog_kind.is_table:
        from app.parts.maintenance.iceberg import compact_iceberg  # noqa: PLC0415 - loads pyiceberg

        return compact_iceberg(settings, options)
    removal = removal_of(settings, options)
    begun = time.time()
    with new_job(settings, options) as job:
        selection = _Selection(job.table, options.target_mb * _MEGABYTE, options.when_cold, removal)
        if not options.dry_run:
            job.resume()
        folders = before = after = 0
        for candidates in job.candidates(selection.is_candidate):
            removal.require_columns(job.table.schema.columns, job.table.spec.columns)
            if removal.conditions:
                job.matching(candidates, removal, "--drop-where")  # refuses a condition that is not valid
            for path, changes in job.work(candidates, selection.bins, removal):
                files, new = sum(len(each.files.files) for each in changes), sum(each.rows > 0 for each in changes)
                folders, before, after = folders + 1, before + files, after + new
                size, new_size = sum(each.files.size for each in changes), sum(each.size for each in changes)
                reasons = sorted({reason for each in changes for reason in each.files.reasons})
                removed = sum(each.files.rows - each.rows for each in changes)
                reasons += [f"{counted(removed, 'row')} removed"] if removed else []
                print_line(
                    f"{path or '.'}: {counted(files, 'file')}, {size:,} bytes → {counted(new, 'file')}"
                    + (f", {new_size:,} bytes" if new_size else "")
                    + (f" ({', '.join(reasons)})" if reasons else "")
                )
        would = "would become" if options.dry_run else "became"
        print_line(f"{counted(folders, 'folder')}: {counted(before, 'file')} {would} {after:,}")
        if not options.dry_run:
            counts = {"before": before, "after": after, "later": selection.warm, "failed": len(job.failed)}
            keep_maintenance(job.table.store, job.table.root, begun=begun, ended=time.time(), **counts)
        if selection.warm:
            print_line(f"skipped: {counted(selection.warm, 'file')} younger than {selection.age}")
        job.require_no_failure()
    return 0


class _Selection:
    """Selects files of a folder to merge into files of at most ``target_bytes``, or into one with the newest rows.

    ``warm`` is the number of small files that were skipped because they are too young.
    """

    def __init__(self, table: TableAtWork, target_bytes: int, when_cold: timedelta, removal: Removal) -> None:
        self._table = table
        self._removal = removal
        self._target_bytes = target_bytes
        self._now = datetime.now(UTC)
        self._cold = self._now - when_cold
        self.age = duration(when_cold.total_seconds())
        schema = table.store.find(schema_key(table.root))
        self._schema_changed = schema.last_modified if schema else datetime.min.replace(tzinfo=UTC)
        self.warm = 0

    def is_candidate(self, _: str, files: Sequence[StoredObject]) -> bool:
        """Return whether files of a folder may have to be merged. The decision needs only the listing."""
        cold = [file for file in files if self._is_cold(file)]
        self.warm += sum(file.last_modified > self._cold and not is_merged(file.key) for file in files)
        if any(not self._removal.is_done(file.key) or file.last_modified < self._schema_changed for file in cold):
            return True
        bins = [cold] if self._removal.newest_by else bins_worth_merging(cold, self._target_bytes)
        return any(len(bin_) > 1 for bin_ in bins)

    def _is_cold(self, file: StoredObject | DataFile) -> bool:
        """Return whether the file may be merged. The rows of a merged file are older than the file."""
        return file.last_modified <= self._cold or (bool(self._removal.newest_by) and is_merged(file.key))

    def bins(self, files: Sequence[DataFile]) -> Iterator[Bin]:
        """Yield bins of small files, of files with a type or codec that has changed, and of files without rows.

        If the table is in a catalog, files without rows stay, because files in a catalog are never deleted.
        """
        files = [file for file in files if self._is_cold(file)]
        is_free = self._now - _WHILE_KEPT
        empty = [file for file in files if not file.rows and file.last_modified < is_free]
        if empty and not self._table.registrar.is_needed:
            yield Bin(empty, ["without rows"])
        full = [file for file in files if file.rows]
        reasons = {file.key: _reasons(file, self._table.schema.columns) for file in full}
        for file in full if self._removal.newest_by else ():
            reasons[file.key] |= set() if self._removal.is_done(file.key) else {"newest rows"}
        bins = [full] if self._removal.newest_by else [*bins_worth_merging(full, self._target_bytes)]
        merged = {file.key for bin_ in bins for file in bin_}
        bins += ([file] for file in full if file.key not in merged)
        for bin_ in bins:
            why = {reason for file in bin_ for reason in reasons[file.key]}
            if len(bin_) > 1 or why:
                yield Bin(bin_, sorted(why))


def _reasons(file: DataFile, table: Mapping[str, pa.DataType]) -> set[str]:
    """Return each type or codec of the file that is different in the table, in words."""
    differences = {
        f"{name} {type_name(kind)} → {type_name(table[name])}"
        for name, kind in TableSchema.from_arrow(schema_of(file)).columns.items()
        if kind != table[name]
    }
    codecs = {
        file.footer.row_group(group).column(column).compression
        for group in range(file.footer.num_row_groups)
        for column in range(file.footer.num_columns)
    }
    return differences | {f"{codec.lower()} → zstd" for codec in codecs - {_CODEC}}
