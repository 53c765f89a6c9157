"""Step 5: upload the written files with a pool of threads."""

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from app.errors import RetryableError
from app.retry import Stopped
from app.storage.base import ObjectStore, StoredObject


@dataclass(frozen=True, slots=True)
class UploadItem:
    """A local file that is to be stored under ``key``, as long as the assignment with this token stands."""

    path: Path
    key: str
    owner: str


class Upload:
    """The upload of one batch's files. It remembers what is stored already, so that it can be repeated.

    Whether a batch is complete is told by its data files. So of each assignment one of them waits until all other
    objects (dead letters, index files) are stored: batches that have none of these take one round less.

    Args:
        upload_items: what to store.
        data: the keys of the data files among them.
        store: where to.
        pool: its size is the number of uploads at the same time.
        may_upload: whether the assignment with this token still writes its partition. Files of others are left out,
            also at a repetition: while an upload waits for its store to come back, the partition's next owner writes
            the same rows. Asked right before each upload, on its thread; may raise as an upload may.
    """

    def __init__(
        self,
        upload_items: Sequence[UploadItem],
        data: Collection[str],
        store: ObjectStore,
        pool: ThreadPoolExecutor,
        may_upload: Callable[[str], bool],
    ) -> None:
        owners = {item.owner for item in upload_items if item.key not in data}
        last = {item.owner: item.key for item in upload_items if item.key in data and item.owner in owners}
        self._missing = [item for item in upload_items if last.get(item.owner) != item.key]
        self._last = [item for item in upload_items if last.get(item.owner) == item.key]
        self._left_out: set[str] = set()
        self._stored: list[tuple[UploadItem, StoredObject]] = []
        self._store = store
        self._pool = pool
        self._may_upload = may_upload

    def run(self) -> None:
        """Upload what is not stored yet.

        Raises:
            FatalError, ConfigError: if any file failed for good.
            RetryableError: if files are missing that a repetition may bring.
            Stopped: the pool was shut down meanwhile.
        """
        self._upload(self._missing)
        self._last[:] = [item for item in self._last if item.owner not in self._left_out]
        self._upload(self._last)

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
                self._stored.append((item, stored))
            else:
                self._left_out.add(item.owner)
        lasting = [error for error in errors if not isinstance(error, RetryableError)]
        if errors:
            raise (lasting or errors)[0]

    def stored(self, owners: Collection[str]) -> Mapping[str, StoredObject]:
        """The uploaded files of these assignments, by their keys."""
        return {item.key: stored for item, stored in self._stored if item.owner in owners}

    def _begin(self, item: UploadItem) -> Future[StoredObject | None]:
        try:
            return self._pool.submit(self._put, item)
        except RuntimeError:  # the pool was shut down between two of them
            raise Stopped from None

    def _put(self, item: UploadItem) -> StoredObject | None:
        return self._store.upload(item.path, item.key) if self._may_upload(item.owner) else None


def _error_of(attempt: Future[StoredObject | None]) -> BaseException | None:
    """Wait for the upload. ``concurrent.futures.wait`` would wait for ever for one that a shutdown has cancelled."""
    try:
        return attempt.exception()
    except CancelledError:
        raise Stopped from None
