"""Step 5: uploads the objects of a batch by a pool of threads."""

from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import replace

from app.errors import RetryableError
from app.model import DataFile, LocalObject
from app.monitoring.waits import Stopped
from app.storage.base import ChangedError, ObjectStore, StoredObject

_Object = DataFile | LocalObject


class Upload:
    """Uploads one batch's objects, and remembers what is stored already, so that it can be repeated.

    The data files show whether a batch is complete. So one of them waits until all other objects are stored: batches
    that have no others take one round less.

    ``may_upload`` says whether the batch's generation may still write. Else the rest of the batch is left out: while an
    upload waits for its store to come back, the next owner of a partition writes the same rows. It is asked right
    before each upload, on its thread, and may raise as an upload may.
    """

    def __init__(
        self,
        files: Sequence[DataFile],
        others: Sequence[LocalObject],
        store: ObjectStore,
        pool: ThreadPoolExecutor,
        may_upload: Callable[[], bool],
    ) -> None:
        self._files = files
        at_once = len(files) - 1 if others else len(files)
        self._missing: list[_Object] = [*files[:at_once], *others]
        self._last: list[_Object] = [*files[at_once:]]
        self.nbytes = sum(each.path.stat().st_size for each in (*self._missing, *self._last))
        self._is_left_out = False
        self._stored: dict[str, StoredObject] = {}
        self._store = store
        self._pool = pool
        self._may_upload = may_upload

    def run(self) -> list[DataFile] | None:
        """Upload the objects that are not stored yet, and return the data files.

        ``None`` if the generation may not write any more, or the store refuses a name that another object has.
        ``Stopped`` if the pool was shut down meanwhile; ``RetryableError`` only if a repetition may bring what is
        missing.
        """
        for waiting in (self._missing, self._last):
            self._upload(waiting)
            if self._is_left_out:
                return None
        return [replace(file, last_modified=self._stored[file.key].last_modified) for file in self._files]

    def _upload(self, waiting: list[_Object]) -> None:
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

    def _begin(self, item: _Object) -> Future[StoredObject | None]:
        try:
            return self._pool.submit(self._put, item)
        except RuntimeError:  # the pool was shut down between two of them
            raise Stopped from None

    def _put(self, item: _Object) -> StoredObject | None:
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
