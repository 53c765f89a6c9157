"""Runs ``compact`` and ``erase`` for an Iceberg table. ``compact`` also lists orphan files."""

import time
from argparse import Namespace
from collections.abc import Hashable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate, groupby
from operator import attrgetter

import pyarrow as pa
import pyarrow.parquet as pq

from app.config.parsers import ORDER_COLUMNS
from app.config.settings import Settings
from app.errors import ConfigError
from app.formatting import counted, duration
from app.journal.journal import survey
from app.parts.commands import print_line
from app.parts.iceberg.rewrite import Fitting, LiveFile, Rewrite
from app.parts.iceberg.table import IcebergTable
from app.parts.maintenance.batch_metadata import as_merged_metadata
from app.parts.maintenance.erase_checks import has_ended, note_erased, refuse_clock, refuse_most
from app.parts.maintenance.job import bins_worth_merging, by_size
from app.parts.maintenance.newest_rows import newest_rows
from app.parts.maintenance.record import keep_maintenance
from app.parts.maintenance.removal import Removal, removal_of
from app.parts.maintenance.table import TableAtWork, is_chosen
from app.spark.scratch import scratch_folder
from app.storage.base import StoredObject
from app.table.layout import UTC_ZONE, is_data_file, is_merged
from app.table.parquet_reader import RangeFile, read_footer
from app.work_pool import side_by_side

_FILES_AT_ONCE = 1_000  # maximum number of input files for a merged file, and for a commit
_ORPHAN_AGE = timedelta(days=1)  # the batch of a younger file may still be committed


def compact_iceberg(settings: Settings, options: Namespace) -> int:
    """Merge files; in a dry run, list the files to merge."""
    begun = time.time()
    table, rewrite = _open(settings)
    listed = {stored.key: stored for stored in table.store.list(f"{table.root}/") if _is_own(stored.key, table.root)}
    selection = _Selection(table, rewrite, listed, options)
    if selection.removal.newest_by:
        selection.removal.require_columns(rewrite.columns(), ())
        if renamed := rewrite.renamed() & {*selection.removal.newest_by, *ORDER_COLUMNS}:
            cause = f"an engine has renamed or replaced the column {min(renamed)!r}, so files may contain another one"
            raise ConfigError("keeping the newest row of each key", cause, "Choose a key of other columns")
    before = after = 0
    for _, of_spec in groupby(selection.bins(rewrite.files()), lambda fitting: fitting.files[0].group[0]):
        for bins in by_size(of_spec, _FILES_AT_ONCE, lambda fitting: len(fitting.files)):
            unchanged = ((fitting.files, "1 file") for fitting in bins)
            for files, result in unchanged if options.dry_run else _merge(rewrite, bins, selection.removal):
                before, after = before + len(files), after + result.startswith("1")
                former = f"{counted(len(files), 'file')}, {sum(file.size for file in files):,} bytes"
                folder = table.folder_of(files[0].key)
                print_line(f"{folder or '.'}: {former} → {result}")
    print_line(f"{counted(before, 'file')} {'would become' if options.dry_run else 'became'} {after:,}")
    selection.print_skipped()
    if not options.dry_run:
        counts = {"before": before, "after": after, "later": selection.warm, "failed": 0}
        keep_maintenance(table.store, table.root, begun=begun, ended=time.time(), **counts)
    chosen = {key: stored for key, stored in listed.items() if selection.is_chosen(key)}
    _list_orphans(table, rewrite, chosen)
    return 0


def erase_iceberg(settings: Settings, options: Namespace) -> int:
    """Remove old partitions from the table; in a dry run, count the rows of these partitions."""
    if options.where:
        hint = "Use DELETE FROM of Spark or Trino, and expire_snapshots"
        raise ConfigError("erasing rows", "it is an Iceberg table", hint)
    table, rewrite = _open(settings)
    live = rewrite.files((settings.timestamp_column, settings.timestamp_as))
    if live and not any(file.times for file in live):
        cause = "the table has no partitions by the time of its records"
        hint = "Check TIMESTAMP_COLUMN and TIMESTAMP_AS, or use DELETE FROM of an engine"
        raise ConfigError("finding old partitions", cause, hint)

    def is_old(file: LiveFile) -> bool:
        zones = {True: settings.time_zone, False: UTC_ZONE}
        ended = [has_ended(values, options.older_than, zones[is_local]) for is_local, values in file.times]
        return bool(ended) and all(ended)

    refuse_clock(options, table.store, table.root)
    refuse_most(options, table.store, table.root, ((file.size, is_old(file)) for file in live))
    old = [file for file in live if is_old(file) and is_chosen(table.folder_of(file.key) or ".", options.folder)]
    if old and not options.dry_run:
        rewrite.commit([], old)
    rows = sum(file.rows for file in old)
    note_erased(options, table.store, table.root, rows)
    would = "would be erased" if options.dry_run else "erased"
    partitions = counted(len({file.group for file in old}), "partition")
    print_line(f"{counted(rows, 'row')} {would} from {counted(len(old), 'file')} in {partitions}")
    return 0


def _open(settings: Settings) -> tuple[TableAtWork, Rewrite]:
    table = TableAtWork(settings, writes=False)  # the table's JSON files are not changed
    assert isinstance(table.catalog, IcebergTable)  # noqa: S101 - the settings say so
    return table, Rewrite(table.catalog, table.store, settings.spec.sort_column, settings.spark.row_group_rows)


class _Selection:
    def __init__(
        self, table: TableAtWork, rewrite: Rewrite, listed: Mapping[str, StoredObject], options: Namespace
    ) -> None:
        self._table = table
        self.removal = removal_of(table.settings, options)
        self._rewrite = rewrite
        self._options = options
        self._target_bytes: int = options.target_mb << 20
        cold = datetime.now(UTC) - options.when_cold
        self._young = {key for key, stored in listed.items() if stored.last_modified > cold}
        self.warm = 0
        self._with_deletes = self._elsewhere = 0

    def is_chosen(self, key: str) -> bool:
        """Return whether the file is in a folder that matches ``--folder``."""
        return is_chosen(self._table.folder_of(key) or ".", self._options.folder)

    def bins(self, files: Sequence[LiveFile]) -> Iterator[Fitting]:
        """Yield groups of files to merge. A group's files have the same partition spec and partition values."""
        groups: dict[tuple[int, Hashable], list[LiveFile]] = {}
        for file in files:
            if not _is_own(file.key, self._table.root):
                self._elsewhere += 1
            elif self.is_chosen(file.key):
                groups.setdefault(file.group, []).append(file)
        for _, group in sorted(groups.items(), key=lambda item: item[0][0]):
            self._with_deletes += sum(file.has_deletes for file in group)
            if self.removal.newest_by:
                yield from self._with_newest([file for file in group if not file.has_deletes])
                continue
            small = [file for file in group if file.size < self._target_bytes and not file.has_deletes]
            cold = [file for file in small if file.key not in self._young]  # an engine's file may be unlisted
            if len(small) > 1:
                self.warm += len(small) - len(cold)
            if not any(bin_[1:] for bin_ in bins_worth_merging(cold, self._target_bytes)):
                continue  # nothing to merge, so no footer is read
            for columns, fitting, _ in self._rewrite.fitting(_with_columns(self._table, cold)):
                for bin_ in bins_worth_merging(fitting, self._target_bytes):
                    parts = by_size(sorted(bin_, key=attrgetter("key")), _FILES_AT_ONCE, lambda _: 1)
                    yield from (Fitting(columns, part) for part in parts if len(part) > 1)

    def _with_newest(self, group: Sequence[LiveFile]) -> Iterator[Fitting]:
        """Yield all files of the group, if a file was added since the last run with this key."""
        # The rows of a merged file are older than the file.
        cold = [file for file in group if file.key not in self._young or is_merged(file.key)]
        self.warm += len(group) - len(cold)
        if all(self.removal.is_done(file.key) for file in cold):
            return
        fittings = self._rewrite.fitting(_with_columns(self._table, cold))
        files = [file for fitting in fittings for file in fitting.files]
        if not all(self.removal.is_done(file.key) for file in files):
            kept = _newest_rows(self._table, files, self.removal.newest_by)
            yield from (fitting._replace(kept=kept) for fitting in fittings)

    def print_skipped(self) -> None:
        if self.warm:
            age = duration(self._options.when_cold.total_seconds())
            print_line(f"skipped: {counted(self.warm, 'file')} younger than {age}")
        if self._with_deletes:
            files = counted(self._with_deletes, "file")
            print_line(f"skipped: {files} with rows deleted by an engine; rewrite_data_files of Spark merges them")
        if self._elsewhere:
            print_line(f"skipped: {counted(self._elsewhere, 'file')} outside the table's folder {self._table.root}")


def _is_own(key: str, root: str) -> bool:
    """Return whether the file surely belongs to this table. Engines may write any folder below ``data``."""
    return is_data_file(key, root) or (key.startswith(f"{root}/data/") and key.endswith(".parquet"))


def _with_columns(table: TableAtWork, files: Sequence[LiveFile]) -> Iterator[tuple[LiveFile, pa.Schema]]:
    workers = table.settings.max_write_workers
    for file, footer in side_by_side(workers, lambda data: read_footer(table.store, data.key, data.size), files):
        yield file, footer.schema.to_arrow_schema().remove_metadata()


def _merge(rewrite: Rewrite, bins: Sequence[Fitting], removal: Removal) -> Iterator[tuple[Sequence[LiveFile], str]]:
    """Merge each group, and commit all merged files. Yield the inputs and the result of each commit, in words."""
    merges = []
    for fitting in bins:
        with scratch_folder() as scratch:
            merges.append(rewrite.merge(fitting, scratch, as_merged_metadata, removal.new_token()))
    committed = rewrite.commit(merges)
    for merge in committed:
        removed = f" ({counted(merge.removed_rows, 'row')} removed)" if merge.removed_rows else ""
        yield merge.inputs, (f"1 file, {merge.file.size:,} bytes" if merge.file else "no file") + removed
    if len(committed) < len(merges):
        print_line(f"{counted(len(merges) - len(committed), 'merge')} skipped: their files have changed meanwhile")


def _newest_rows(table: TableAtWork, files: Sequence[LiveFile], key: Sequence[str]) -> Mapping[str, pa.BooleanArray]:
    """Return, for each file's object key, whether each row is one of the newest rows of its key."""

    def read(file: LiveFile) -> pa.Table:
        with pq.ParquetFile(RangeFile(table.store, file.key, file.size)) as opened:
            rows = opened.read([name for name in names if name in opened.schema_arrow.names])
        columns = rows.column_names
        return pa.table({name: rows[name] if name in columns else pa.nulls(file.rows) for name in names})

    names = [*dict.fromkeys((*key, *ORDER_COLUMNS))]
    tables = [rows for _, rows in side_by_side(table.settings.max_write_workers, read, files)]
    kept = newest_rows(pa.concat_tables(tables, promote_options="permissive"), key)
    ends = accumulate(map(len, tables))
    return {file.key: kept[end - len(rows) : end] for file, rows, end in zip(files, tables, ends, strict=True)}


def _list_orphans(table: TableAtWork, rewrite: Rewrite, listed: Mapping[str, StoredObject]) -> None:
    """Print the old data files that no snapshot contains, and that do not belong to a batch in progress."""
    old = datetime.now(UTC) - _ORPHAN_AGE
    left_out = survey(table.store, table.root).left_out
    candidates = {key for key, stored in listed.items() if stored.last_modified < old} - left_out
    orphans = sorted(candidates - rewrite.referenced())
    for key in orphans:
        print_line(f"in no snapshot: {table.store.uri}/{key}")
    if orphans:
        size = sum(listed[key].size for key in orphans)
        print_line(f"{counted(len(orphans), 'file')} of {size:,} bytes in no snapshot: this table does not need them")
