"""Merges files of a folder: writes the merged file, adds this file to the table, and removes the input files."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from app.config.settings import Settings
from app.errors import FatalError
from app.journal.late_uploads import Placeholders
from app.model import DataFile
from app.parts.maintenance.batch_metadata import as_merged_metadata
from app.parts.maintenance.record import FolderRecord, Replacement, staging_folder
from app.parts.maintenance.removal import EVERY_ROW, NOTHING, Removal
from app.parts.maintenance.spark_merge import Merge, Target, has_ended, merge_session
from app.parts.maintenance.table import TableAtWork
from app.parts.quix.virtual_index import write_index
from app.spark.scratch import scratch_folder
from app.storage.base import ChangedError, StoredObject
from app.storage.targets import AzureTarget, S3Target, StorageTarget
from app.table.layout import RESCUED_COLUMN, index_key, is_merged, merged_key
from app.table.parquet_reader import schema_of
from app.work_pool import side_by_side


class SkippedError(Exception):
    """Another run has changed the folder meanwhile."""


class SharedSession:
    """A Spark session for all tables of a run. ``ends`` closes the session. ``get`` is thread-safe."""

    def __init__(self, settings: Settings, ends: ExitStack) -> None:
        self._spark, self._storage = settings.spark, settings.storage
        self._scratch = ends.enter_context(scratch_folder())
        self._ends = ends.enter_context(ExitStack())
        self._lock = Lock()
        self._session: Any = None

    def renew(self) -> None:
        """If Spark has ended, forget the session, so that ``get`` starts Spark again."""
        if self._session is not None and has_ended(self._session):
            self._ends.close()
            self._session = None

    def get(self) -> Any:
        """Return the session. The first call starts Spark."""
        with self._lock:  # each folder in progress has a thread
            if self._session is None:
                spark, conf = self._spark, {} if self._spark.is_local else access_of_executors(self._storage)
                session = merge_session(spark.master, f"{spark.heap_mb}m", self._scratch, conf)
                self._session = self._ends.enter_context(session)
            return self._session


class Merger:
    """Merges files of a table. Several threads may use this object for different folders.

    ``scratch`` is a folder for copies of files. ``session`` returns the Spark session, and starts Spark if necessary.
    """

    def __init__(self, table: TableAtWork, scratch: Path, session: Callable[[], Any]) -> None:
        self._table = table
        self._scratch = scratch
        self.session = session
        settings = table.settings
        self._workers = settings.max_write_workers
        # In local mode, Spark reads local copies of the files. Executors of a cluster read files from the store.
        self._uri = None if settings.spark.is_local else uri_for_executors(settings.storage)

    def folder(self) -> "TemporaryDirectory[str]":
        return TemporaryDirectory(dir=self._scratch)

    def prepare(
        self, folder: str, files: Sequence[DataFile], removal: Removal, scratch: Path
    ) -> tuple[Replacement, Path | None]:
        """Merge these files into a file in the empty folder ``scratch``. The table is not changed.

        The rows of the removal are omitted. If no rows remain, or ``erase`` would erase no rows, no file is written. In
        a dry run, no file is written either.

        Raises:
            SkippedError: Another run has changed the folder.
        """
        writes = self._table.writes
        merge = self._merge(folder, files, removal, scratch) if writes or removal != NOTHING else None
        everything = sum(file.rows for file in files)
        rows = everything - (0 if removal == NOTHING else merge.count_erased() if merge else everything)
        if removal.newest_by and everything and not rows and len(files) > 1:
            # An interrupted run might delete only the files with the newest rows. The next run has only one file.
            return self.prepare(folder, files, Removal(newest_by=removal.newest_by), scratch)
        has_catalog = self._table.registrar.is_needed
        is_kept = {file.key: has_catalog or (is_merged(file.key) and file.rows > 0) for file in files}
        replacement = Replacement(
            folder,
            deleted=[key for key, kept in is_kept.items() if not kept],
            emptied=[key for key, kept in is_kept.items() if kept],
            out=merged_key(self._table.root, folder, removal.new_token()) if rows else None,
            rows=rows,
        )
        if merge and writes and rows and (rows < everything or not removal.is_erasure):
            return replacement, self._write_file(merge, files, rows, scratch)
        return replacement, None

    def commit(self, record: FolderRecord, replacement: Replacement, path: Path | None) -> int:
        """Replace the inputs by the prepared file, and return the file's size in bytes (0 if no file was prepared).

        ``record`` must contain no change in progress, and must have been read before the files were listed. The model
        requires this order. After an error, the next run completes the change or rolls it back.

        Raises:
            SkippedError: Another run has changed the folder first.
        """
        _write(record, replacement)
        return self._complete(record, replacement, path)

    def resume(self, record: FolderRecord, replacement: Replacement) -> bool:
        """Complete another run's change if the merged file exists, and return true. Otherwise, roll the change back.

        After a rollback, a file without rows occupies the name, so that a stalled run cannot upload the merged file.
        This run cannot write the merged file, because the record does not contain the conditions of an erase.

        Raises:
            SkippedError: Another run has completed the change, or is completing the change.
        """
        _write(record, replacement)
        if replacement.out is None or not self._exists(replacement.out):
            _write(record, None)
            return False
        self._complete(record, replacement, None)
        return True

    def _exists(self, out: str) -> bool:
        """Return whether the merged file is in the store. If not, upload a file without rows under its name."""
        store = self._table.store
        if store.find(out) is None:
            with self.folder() as scratch, suppress(ChangedError):  # another run has uploaded the file
                pq.write_table(pa.schema(list(self._target().columns.items())).empty_table(), f"{scratch}/none.parquet")
                store.upload(Path(scratch) / "none.parquet", out)
        return self._table.rows_of(store.find(out)) > 0

    def _target(self) -> Target:
        spec = self._table.spec
        columns = {**self._table.schema.columns, RESCUED_COLUMN: pa.string()}
        return Target(columns, RESCUED_COLUMN, spec.sort_column or spec.timestamp_column)

    def _merge(self, folder: str, files: Sequence[DataFile], removal: Removal, scratch: Path) -> Merge | None:
        """Return the rows of the files as a ``Merge``; ``None`` if no file with rows has to be read."""
        sources: dict[pa.Schema, list[str]] = {}
        full = [file for file in files if file.rows and removal != EVERY_ROW]
        for file, uri in side_by_side(self._workers, partial(self._address, scratch), full):
            sources.setdefault(schema_of(file), []).append(uri)
        if not full:
            return None
        return Merge(self.session(), sources, self._target(), self._table.partition_values(folder), removal)

    def _address(self, scratch: Path, file: DataFile) -> str:
        """Return the address where Spark reads a file. In local mode, download the file first."""
        if self._uri is not None:
            return f"{self._uri}/{file.key}"
        path = scratch / f"{secrets.token_hex(8)}.parquet"
        self._table.store.download(file.key, path)
        if path.stat().st_size != file.size:
            raise SkippedError
        return str(path)

    def _write_file(self, merge: Merge, files: Sequence[DataFile], rows: int, scratch: Path) -> Path:
        """Write the merged file, check the number of rows, and return the file's path."""
        metadata = as_merged_metadata([(file.key, file.footer.metadata) for file in files])
        if self._uri is None:
            merge.write(str(scratch / "out"), metadata)
            [path] = (scratch / "out").glob("*.parquet")
        else:
            path = self._from_executors(merge, metadata, scratch)
        rows_written = pq.read_metadata(path).num_rows
        if rows_written != rows:
            raise FatalError(
                f"checking the merged file of {files[0].key} and other files",
                f"Spark has written {rows_written:,} rows instead of {rows:,}",
                "Nothing was changed; please report this as a bug",
            )
        return path

    def _from_executors(self, merge: Merge, metadata: Mapping[str, Any], scratch: Path) -> Path:
        table = self._table
        staging = staging_folder(table.root, secrets.token_hex(8))
        try:
            merge.write(f"{self._uri}/{staging}", metadata)
            [staged] = (stored for stored in table.store.list(staging) if stored.key.endswith(".parquet"))
            path = scratch / "out.parquet"
            table.store.download(staged.key, path)
        finally:
            table.delete([stored.key for stored in table.store.list(staging)])
        return path

    def _complete(self, record: FolderRecord, replacement: Replacement, path: Path | None) -> int:
        stored = self._put(replacement, replacement.out, path) if replacement.out else None
        if stored:
            self._put_index(stored, path)
            self._table.register([stored])
        self._remove_inputs(replacement)
        _write(record, None)
        return stored.size if stored else 0

    def _put(self, replacement: Replacement, out: str, path: Path | None) -> StoredObject:
        """Upload the merged file if ``path`` is set, and check the number of rows in the store."""
        store = self._table.store
        is_refused = False
        if path is not None:
            try:
                store.upload(path, out)
            except ChangedError:  # another run has uploaded a file with this name
                is_refused = True
        stored = store.find(out)
        rows = self._table.rows_of(stored)
        if stored is None or rows != replacement.rows:
            if is_refused:
                raise SkippedError
            raise FatalError(
                f"checking {store.uri}/{out}",
                f"it has {rows:,} rows instead of {replacement.rows:,}",
                "The files that were merged into it stay; find out who has changed it",
            )
        return stored

    def _put_index(self, stored: StoredObject, path: Path | None) -> None:
        table = self._table
        if not table.spec.virtual:
            return
        with self.folder() as scratch:
            if path is None:
                path = Path(scratch) / "merged.parquet"
                table.store.download(stored.key, path)
            index = Path(scratch) / "index.parquet"
            if write_index(path, table.spec.virtual, table.texts_of(stored.key), index):
                table.store.overwrite(index_key(stored.key), index.read_bytes())

    def _remove_inputs(self, replacement: Replacement) -> None:
        """Delete the inputs, or replace them by placeholders."""
        table = self._table
        indexes = {index_key(key) for key in replacement.inputs}  # remove them even if no partition is virtual now
        listed = table.store.list(f"{index_key(replacement.inputs[0]).rpartition('/')[0]}/")
        table.delete([*replacement.deleted, *(stored.key for stored in listed if stored.key in indexes)])
        Placeholders(
            table.store,
            table.root,
            pa.schema([]),
            lambda work, keys: (result for _, result in side_by_side(self._workers, work, keys)),
        ).put(replacement.emptied)
        if replacement.emptied:
            emptied = {*replacement.emptied}
            table.register(stored for stored in table.files_in(replacement.folder) if stored.key in emptied)


def _write(record: FolderRecord, replacement: Replacement | None) -> None:
    try:
        record.write(replacement)
    except ChangedError:
        raise SkippedError from None


def uri_for_executors(target: StorageTarget) -> str:
    if isinstance(target, S3Target):
        return f"s3a://{target.bucket}"
    return target.dfs_uri if isinstance(target, AzureTarget) else target.uri


def access_of_executors(target: StorageTarget) -> Mapping[str, str]:
    """Return Hadoop's settings that executors need to access the store. Only S3 needs these settings.

    For Google and Azure, and for S3 without access keys, executors use the identity of the cluster's machines, or the
    cluster's configuration.
    """
    if not isinstance(target, S3Target):
        return {}
    values = {
        "endpoint": target.endpoint_url,
        "path.style.access": "true" if target.endpoint_url else None,
        "endpoint.region": target.region,
        "access.key": target.access_key,
        "secret.key": target.secret_key,
        "session.token": target.session_token,
    }
    if target.role_arn:
        token_service = urlsplit(target.token_service or "").netloc  # Hadoop adds https://, and needs both or neither
        values |= {
            "aws.credentials.provider": "org.apache.hadoop.fs.s3a.auth.AssumedRoleCredentialProvider",
            "assumed.role.arn": target.role_arn,
            "assumed.role.external.id": target.role_external_id,
            "assumed.role.session.name": target.role_session,
            "assumed.role.sts.endpoint": token_service,
            "assumed.role.sts.endpoint.region": token_service and target.region,
        }
    return {f"spark.hadoop.fs.s3a.{name}": value for name, value in values.items() if value}
