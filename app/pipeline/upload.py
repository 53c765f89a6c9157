"""Step 5: the objects of a batch that go to the store, each with its key, and their upload by a pool of threads."""

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from app.bad_records.dead_letter import write as write_dead_letter
from app.catalog.column_stats import column_stats
from app.catalog.virtual_index import write_index
from app.errors import RetryableError
from app.journal.entry import JournaledFile
from app.journal.generation import Intent
from app.model import BatchPart, Rejected, StoredFile, TopicPartition, WrittenFile
from app.monitoring.waits import Stopped
from app.storage.base import ChangedError, ObjectStore, StoredObject
from app.table.layout import data_key, dead_letter_key, file_name, index_key


@dataclass(frozen=True, slots=True)
class UploadItem:
    """A local file that is to be stored under ``key``; ``records`` of it are in no other object of the batch."""

    path: Path
    key: str
    records: int = 0


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a table's objects go, and what is made of its columns.

    Args:
        store: connected.
        table_root: key of the table's folder.
        virtual_columns: partition columns without folders (virtual partitions).
        stats_columns: the only columns to collect bounds and counts of (zone maps); ``None`` for all.
    """

    store: ObjectStore
    table_root: str
    virtual_columns: Sequence[str] = ()
    stats_columns: frozenset[str] | None = None

    def data_file(self, file: WrittenFile) -> UploadItem:
        """The item of a file that Spark wrote."""
        group = file.group
        return UploadItem(file.path, data_key(self.table_root, group.partition_values, file_name(group.parts)))

    def dead_letters(self, rejected: Sequence[tuple[BatchPart, Sequence[Rejected]]], folder: Path) -> list[UploadItem]:
        """Write the rejected records of each topic-partition into a file of its own below ``folder``."""
        upload_items = []
        for index, (part, records) in enumerate(rejected):
            path = folder / f"dead-letter-{index}.parquet"
            write_dead_letter(records, path)
            upload_items.append(UploadItem(path, dead_letter_key(self.table_root, part), len(records)))
        return upload_items

    def sidecars(self, files: Sequence[WrittenFile], folder: Path) -> list[UploadItem]:
        """Write the index of virtual partitions that goes beside each data file, below ``folder``."""
        upload_items = []
        for index, file in enumerate(files if self.virtual_columns else ()):
            path = folder / f"sidecar-{index}.parquet"
            if write_index(file.path, self.virtual_columns, file.group.partition_values, path):
                upload_items.append(UploadItem(path, index_key(self.data_file(file).key)))
        return upload_items

    def intent(
        self,
        parts: Sequence[BatchPart],
        files: Sequence[WrittenFile],
        upload_items: Sequence[UploadItem],
        ends: Mapping[TopicPartition, int],
    ) -> Intent | None:
        """The announcement of all objects that a batch will store; ``None`` if there are none.

        Args:
            parts: all of the batch, at least one.
            files: those that Spark wrote.
            upload_items: everything that will be uploaded.
            ends: the last offset that was read of each topic-partition.
        """
        if not upload_items:
            return None
        data = {}
        for file in files:
            key, values = self.data_file(file).key, dict(file.group.partition_values)
            data[key] = JournaledFile(key=key, size=file.size, rows=file.group.rows, partition_values=values)
        also = {item.key: item.records for item in upload_items if item.key not in data}
        return Intent(parts[0].number, [part.offsets for part in parts], tuple(data.values()), also, ends)

    def footers(self, files: Sequence[WrittenFile]) -> dict[Path, pq.FileMetaData]:
        """The footers by the path of the file."""
        return {file.path: pq.read_metadata(file.path) for file in files}

    def stored_files(
        self, files: Sequence[WrittenFile], stored: Mapping[str, StoredObject], footers: Mapping[Path, pq.FileMetaData]
    ) -> list[StoredFile]:
        """The files as they are registered.

        Args:
            files: those that Spark wrote.
            stored: the uploaded objects by key, the files among them.
            footers: those of the files; may be empty where nothing is registered.
        """
        keyed = [(self.data_file(file).key, file) for file in files]
        return [
            StoredFile(
                key=key,
                uri=f"{self.store.uri}/{key}",
                size=stored[key].size,
                rows=file.group.rows,
                partition_values=file.group.partition_values,
                last_modified=stored[key].last_modified,
                column_stats=column_stats(footers[file.path], self.stats_columns) if footers else {},
                footer=footers.get(file.path),
            )
            for key, file in keyed
        ]


class Upload:
    """The upload of one batch's files. It remembers what is stored already, so that it can be repeated.

    The data files show whether a batch is complete. So one of them waits until all other objects (dead letters,
    index files) are stored: batches that have none of these take one round less.

    Args:
        upload_items: the objects to store.
        data: the keys of the data files among them.
        store: their destination.
        pool: its size is the number of uploads at the same time.
        may_upload: whether the batch's generation may still write. Else the rest of the batch is left out: while an
            upload waits for its store to come back, the next owner of a partition writes the same rows. Asked right
            before each upload, on its thread; may raise as an upload may.
    """

    def __init__(
        self,
        upload_items: Sequence[UploadItem],
        data: Collection[str],
        store: ObjectStore,
        pool: ThreadPoolExecutor,
        may_upload: Callable[[], bool],
    ) -> None:
        data_files = [item for item in upload_items if item.key in data]
        self._last = data_files[-1:] if len(data_files) < len(upload_items) else []
        self._missing = [item for item in upload_items if item not in self._last]
        self._is_left_out = False
        self._stored: dict[str, StoredObject] = {}
        self._store = store
        self._pool = pool
        self._may_upload = may_upload

    def run(self) -> Mapping[str, StoredObject] | None:
        """Upload the objects that are not stored yet.

        Returns:
            All objects by their keys; ``None`` if the generation may not write any more, or the store refuses a name
            that another object has.

        Raises:
            FatalError, ConfigError: if any file failed for good.
            RetryableError: if files are missing that a repetition may bring.
            Stopped: the pool was shut down meanwhile.
        """
        for waiting in (self._missing, self._last):
            self._upload(waiting)
            if self._is_left_out:
                return None
        return self._stored

    def _upload(self, waiting: list[UploadItem]) -> None:
        """Upload these; those that fail stay in the list."""
        attempts = [(item, self._begin(item)) for item in waiting]
        waiting.clear()
        errors: list[BaseException] = []
        for item, attempt in attempts:
            error = _error_of(attempt)
            if error is not None:
                waiting.append(item)
                errors.append(error)
            elif (stored := attempt.result()) is not None:
                self._stored[item.key] = stored
            else:
                self._is_left_out = True
        lasting = [error for error in errors if not isinstance(error, RetryableError)]
        if lasting or (errors and not self._is_left_out):
            raise (lasting or errors)[0]

    def _begin(self, item: UploadItem) -> Future[StoredObject | None]:
        try:
            return self._pool.submit(self._put, item)
        except RuntimeError:  # the pool was shut down between two of them
            raise Stopped from None

    def _put(self, item: UploadItem) -> StoredObject | None:
        try:
            return self._store.upload(item.path, item.key) if self._may_upload() else None
        except ChangedError:
            return None


def _error_of(attempt: Future[StoredObject | None]) -> BaseException | None:
    """Wait for the upload. ``concurrent.futures.wait`` would wait for ever for one that a shutdown has cancelled."""
    try:
        return attempt.exception()
    except CancelledError:
        raise Stopped from None
