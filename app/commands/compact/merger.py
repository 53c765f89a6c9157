"""Merges files of one folder: makes the new file, puts it into the table, and takes the old ones out."""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from app.catalog.registrar import Registrar
from app.catalog.virtual_index import write_index
from app.commands.batches_in_files import as_merged_metadata, batches_in
from app.commands.compact.folders import TableFile, files_in, partition_values
from app.commands.compact.record import FolderRecord, Intent, staging_folder
from app.commands.side_by_side import side_by_side
from app.errors import FatalError
from app.model import DataFile
from app.spark.merge import Merge, Target
from app.storage.base import ChangedError, ManyDeleter, ObjectStore, StoredObject
from app.table.layout import index_key, is_merged, merged_key, spec_of_key
from app.table.parquet_reader import read_footer
from app.table.placeholder import Placeholders

EVERY_ROW = ("true",)  # the condition that all rows meet: files are then deleted without a look into them
_TOKEN_BYTES = 12


class SkippedError(Exception):
    """Another run has changed the folder meanwhile."""


class GivenUpError(Exception):
    """What another run has begun cannot be completed; nothing was changed."""


class _OtherRowsError(FatalError):
    """The inputs have other rows than they had."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A file to take the place of others.

    Attributes:
        folder, files, erased: as in ``Merger.prepared``.
        gone: the number of rows that meet the conditions.
        rows: the number of the others.
        path: the file with these; ``None`` if there is none, or nothing to do.
    """

    folder: str
    files: Sequence[TableFile]
    erased: Sequence[str]
    gone: int
    rows: int
    path: Path | None


@dataclass(frozen=True, slots=True)
class SparkAccess:
    """How Spark reaches the table.

    Attributes:
        session: starts it, the first time.
        uri: of the bucket, for the executors of a cluster; ``None``: in local mode Spark has copies of the files.
    """

    session: Callable[[], Any]
    uri: str | None = None


class Merger:
    """Merges files; several threads may call it for different folders.

    Args:
        store, root: where the table is.
        spark: how it is reached.
        target: what merged files are to be like.
        registrar: informs the catalog.
        virtual: partition columns without folders.
        null_value: the folder value of a null.
        scratch: a private folder for copies of the files at hand.
        workers: files that are copied at once.
    """

    def __init__(
        self,
        *,
        store: ObjectStore,
        root: str,
        spark: SparkAccess,
        target: Callable[[], Target],
        registrar: Registrar,
        virtual: Sequence[str],
        null_value: str,
        scratch: Path,
        workers: int,
    ) -> None:
        self._store = store
        self._root = root
        self._spark = spark
        self._target = target
        self._registrar = registrar
        self._virtual = virtual
        self._null_value = null_value
        self._scratch = scratch
        self._workers = workers

    @contextmanager
    def prepared(
        self, folder: str, files: Sequence[TableFile], erased: Sequence[str], *, writes: bool
    ) -> Iterator["Prepared"]:
        """Make the file of the rows that do not meet all conditions; without conditions that is all of them.

        Args:
            folder: its path below the table.
            files: none of an unfinished batch.
            erased: conditions in SQL.
            writes: else the rows are counted, and there is no file.

        Raises:
            SkippedError: another run has changed the folder.
            ConnectorError: of the store or Spark; nothing was changed.
        """
        with TemporaryDirectory(dir=self._scratch) as scratch:
            merge = self._merge(folder, files, erased, Path(scratch))
            everything = sum(file.rows for file in files)
            gone = 0 if not erased else merge.count_erased() if merge else everything
            rows = everything - gone
            path = None
            if merge and rows and writes and (gone or not erased):
                path = self._written(merge, files, rows, Path(scratch))
            yield Prepared(folder, files, erased, gone, rows, path)

    def commit(self, record: FolderRecord, prepared: "Prepared") -> int:
        """Put the prepared file in the place of the others, and return its size in bytes (0 without a file).

        Args:
            record: of the folder, read before the files were listed, with nothing under way.
            prepared: the file.

        Raises:
            SkippedError: another run was quicker.
            ConnectorError: of the store or the catalog; the next run completes it.
        """
        is_needed = self._registrar.is_needed
        is_kept = {file.key: is_needed or (is_merged(file.key) and file.rows > 0) for file in prepared.files}
        intent = Intent(
            prepared.folder,
            deleted=[key for key, kept in is_kept.items() if not kept],
            emptied=[key for key, kept in is_kept.items() if kept],
            out=merged_key(self._root, prepared.folder, secrets.token_hex(_TOKEN_BYTES)) if prepared.rows else None,
            rows=prepared.rows,
            erased=prepared.erased,
        )
        self._write(record, intent)
        return self._complete(record, prepared.path)

    def resume(self, record: FolderRecord) -> None:
        """Complete what another run has begun.

        Raises:
            SkippedError: somebody else does, or has done it.
            GivenUpError: the inputs are not what they were, so the folder is free for another try.
            ConnectorError: as ``merge``.
        """
        intent = record.current
        assert intent is not None  # noqa: S101 - of an open record
        self._write(record, intent)
        with TemporaryDirectory(dir=self._scratch) as scratch:
            path = None
            if intent.out:
                path = self._made_again(intent, intent.out, Path(scratch))
                if path is None and self._rows_of(self._store.find(intent.out)) == 0:
                    self._write(record, None)
                    raise GivenUpError
            self._complete(record, path)

    def _made_again(self, intent: Intent, out: str, scratch: Path) -> Path | None:
        """The merged file, unless it is in the store; a file without rows takes its name if it cannot be made.

        No run that stalls can upload it then. Files of unfinished work are no one's but this run's, so an input that
        is missing was deleted from outside.
        """
        if self._store.find(out) is not None:
            return None
        stored = {found.key: found for found in files_in(self._store, self._root, intent.folder)}
        if set(intent.inputs) <= stored.keys():
            files = [table_file(self._store, stored[key]) for key in intent.inputs]
            merge = self._merge(intent.folder, files, intent.erased, scratch)
            with suppress(_OtherRowsError):
                if merge:
                    return self._written(merge, files, intent.rows, scratch)
        pq.write_table(pa.schema(list(self._target().columns.items())).empty_table(), scratch / "none.parquet")
        with suppress(ChangedError):  # it has just been uploaded
            self._store.upload(scratch / "none.parquet", out)
        return None

    def _rows_of(self, stored: StoredObject | None) -> int:
        return read_footer(self._store, stored.key, stored.size).num_rows if stored else 0

    def _merge(self, folder: str, files: Sequence[TableFile], erased: Sequence[str], scratch: Path) -> Merge | None:
        """Spark's view of the files; ``None`` if there are no rows."""
        sources: dict[pa.Schema, list[str]] = {}
        full = [file for file in files if file.rows and tuple(erased) != EVERY_ROW]
        for file, uri in side_by_side(self._workers, partial(self._address, scratch), full):
            sources.setdefault(file.schema, []).append(uri)
        if not full:
            return None
        values = partition_values(self._root, folder, self._null_value)
        return Merge(self._spark.session(), sources, self._target(), values, erased)

    def _address(self, scratch: Path, file: TableFile) -> str:
        """Where Spark reads a file."""
        if self._spark.uri is not None:
            return f"{self._spark.uri}/{file.key}"
        path = scratch / f"{secrets.token_hex(8)}.parquet"
        self._store.download(file.key, path)
        if path.stat().st_size != file.size:
            raise SkippedError
        return str(path)

    def _written(self, merge: Merge, files: Sequence[TableFile], rows: int, scratch: Path) -> Path:
        """The merged file, with so many rows."""
        metadata = as_merged_metadata(batches_in(file.key, file.footer.metadata) for file in files)
        if self._spark.uri is None:
            merge.write(str(scratch / "out"), metadata)
            [path] = (scratch / "out").glob("*.parquet")
        else:
            path = self._from_executors(merge, metadata, scratch)
        found = pq.read_metadata(path).num_rows
        if found != rows:
            raise _OtherRowsError(
                f"checking what Spark has merged of {files[0].key} and others",
                f"it has {found:,} rows instead of {rows:,}",
                "Nothing was changed; please report this as a bug",
            )
        return path

    def _from_executors(self, merge: Merge, metadata: Mapping[str, Any], scratch: Path) -> Path:
        staging = staging_folder(self._root, secrets.token_hex(8))
        try:
            merge.write(f"{self._spark.uri}/{staging}", metadata)
            [staged] = (found for found in self._store.list(staging) if found.key.endswith(".parquet"))
            path = scratch / "out.parquet"
            self._store.download(staged.key, path)
        finally:
            delete(self._store, [found.key for found in self._store.list(staging)], self._workers)
        return path

    def _write(self, record: FolderRecord, intent: Intent | None) -> None:
        try:
            record.write(intent)
        except ChangedError:
            raise SkippedError from None

    def _complete(self, record: FolderRecord, path: Path | None) -> int:
        """Put the file into the table, take the inputs out, and return its size; the order is that of the model."""
        intent = record.current
        assert intent is not None  # noqa: S101 - just written
        stored = self._put(intent, path) if intent.out else None
        if stored:
            self._register(stored, path)
        self._take_out(intent)
        self._write(record, None)
        return stored.size if stored else 0

    def _put(self, intent: Intent, path: Path | None) -> StoredObject:
        """Upload the merged file, unless it is there, and read it back."""
        assert intent.out is not None  # noqa: S101 - the caller has looked
        is_refused = False
        if path is not None:
            try:
                self._store.upload(path, intent.out)
            except ChangedError:  # another run has uploaded the same rows, and may be further by now
                is_refused = True
        stored = self._store.find(intent.out)
        rows = self._rows_of(stored)
        if stored is None or rows != intent.rows:
            if is_refused:
                raise SkippedError
            raise FatalError(
                f"checking {self._store.uri}/{intent.out}",
                f"it has {rows:,} rows instead of {intent.rows:,}",
                "The files that it is merged of stay; find out who has changed it",
            )
        return stored

    def _register(self, stored: StoredObject, path: Path | None) -> None:
        """Write the index file beside the merged file, and inform the catalog."""
        values = dict(zip(*spec_of_key(stored.key, self._root), strict=True))
        if self._virtual:
            with TemporaryDirectory(dir=self._scratch) as scratch:
                if path is None:
                    path = Path(scratch) / "merged.parquet"
                    self._store.download(stored.key, path)
                index = Path(scratch) / "index.parquet"
                if write_index(path, self._virtual, values, index):
                    self._store.overwrite(index_key(stored.key), index.read_bytes())
        if self._registrar.is_needed:
            self._registrar.register_again([self._data_file(stored, values)])

    def _take_out(self, intent: Intent) -> None:
        """Delete or empty the inputs."""
        indexes = {index_key(key) for key in intent.inputs}  # also where the partition columns were others since
        listed = self._store.list(f"{index_key(intent.inputs[0]).rpartition('/')[0]}/")
        indexed = [found.key for found in listed if found.key in indexes]
        delete(self._store, [*intent.deleted, *indexed], self._workers)
        Placeholders(
            self._store,
            self._root,
            pa.schema([]),
            lambda work, keys: (result for _, result in side_by_side(self._workers, work, keys)),
        ).put(intent.emptied)
        if self._registrar.is_needed and intent.emptied:
            values = dict(zip(*spec_of_key(intent.emptied[0], self._root), strict=True))
            found = files_in(self._store, self._root, intent.folder)
            emptied = set(intent.emptied)
            self._registrar.register_again([self._data_file(each, values) for each in found if each.key in emptied])

    def _data_file(self, stored: StoredObject, values: Mapping[str, str]) -> DataFile:
        footer = read_footer(self._store, stored.key, stored.size)
        return DataFile(
            stored.key, values, footer.num_rows, stored.size, last_modified=stored.last_modified, footer=footer
        )


def table_file(store: ObjectStore, found: StoredObject) -> TableFile:
    """A file with its footer.

    Raises:
        ConnectorError: of the store; ``FatalError`` also for an object that is no Parquet file.
    """
    return TableFile(found.key, found.size, found.last_modified, read_footer(store, found.key, found.size))


def delete(store: ObjectStore, keys: Sequence[str], workers: int) -> None:
    """Delete objects, in one request for many where the store has one."""
    if isinstance(store, ManyDeleter):
        store.delete_many(keys)
        return
    for _ in side_by_side(workers, store.delete, keys):
        pass
