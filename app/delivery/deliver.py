"""The thread "deliver": uploads and registers written batches, and notes each step in the assignment's log."""

import contextlib
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Executor, Future
from dataclasses import replace
from functools import partial

from app.catalog.registrar import Registrar
from app.delivery.flow import JOURNAL, KAFKA, REGISTER, UPLOAD, Flow, GatheredBatch
from app.delivery.runtime import Runtime
from app.errors import ConnectorError, FatalError, RetryableError
from app.journal.journal import FencedError
from app.journal.log import Intent
from app.journal.own_log import OwnLog
from app.model import DataFile, LocalObject, TopicPartition
from app.retries import OUTAGE_SECONDS, Request, Stopped
from app.storage.base import ChangedError, ObjectStore, StoredObject

logger = logging.getLogger(__name__)

_Object = DataFile | LocalObject
_FOREIGN_OBJECT = "No other batch uses these names: find the program that writes into the table's folder"
_CATALOG = Request("catalog", "registering the table or its files")
_SLOWEST_UPLOAD = 2**20  # bytes per second; if uploads are slower, the store is treated as unavailable


class Delivery:
    """Does steps 4 to 7 of each batch. If an assignment has ended, the batches of the assignment are dropped.

    ``recreated`` is called with each batch's partitions before the batch's first upload. If a topic was recreated after
    the batch was read, ``recreated`` returns an error. The call may also raise an error of a step.
    """

    def __init__(
        self,
        flow: Flow,
        store: ObjectStore,
        registrar: Registrar,
        runtime: Runtime,
        recreated: Callable[[Sequence[TopicPartition]], ConnectorError | None] = lambda _: None,
    ) -> None:
        self._flow = flow
        self._object_store = store
        self._registrar = registrar
        self._recreated = recreated
        self._metrics = runtime.metrics
        self._pool = runtime.threads.new_pool("upload", runtime.workers)
        # Kafka reassigns a partition if a member sends no heartbeat for ``session_seconds``. Half of this time is safe.
        self._fresh_seconds = runtime.timings.session_seconds / 2
        self._last_log: OwnLog | None = None  # the log of the last batch

    def step(self) -> None:
        """Deliver the next batch. Raises errors that retries cannot correct, including errors of earlier steps."""
        try:
            self._deliver(*self._flow.written.get())
        except Exception:
            self._note_done()
            raise

    def stop(self) -> None:
        """Prevent further uploads."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    # --- a batch ----------------------------------------------------------------------------------------------------

    def _deliver(self, batch: GatheredBatch, files: Sequence[DataFile]) -> None:
        assignment, dead_letters = batch.in_flight.assignment, batch.staged.dead_letters
        self._last_log = log = assignment.log
        try:
            log.check_open()
            if batch.staged.parts:
                self._store(batch, files)
            else:
                self._advance(batch)
        except FencedError as error:
            logger.debug("batch %d is dropped: %s", batch.in_flight.number, error)
            if dropped := len(files) + len(dead_letters):
                self._metrics.delivered(batch.outcome([], dropped))
            self._delete_late_uploads(log)
        else:
            assignment.delivered(batch.last_portion, batch.ends)
        batch.in_flight.end()

    def _store(self, batch: GatheredBatch, files: Sequence[DataFile]) -> None:
        step, log = batch.in_flight.step, batch.in_flight.assignment.log
        self._confirm_topics(batch)
        others = batch.staged.dead_letters + self._registrar.write_indexes(files, batch.in_flight.folder)
        stored = self._store_objects(batch, files, others) if files or others else self._advance(batch)
        if self._flow.written.is_empty:  # otherwise the log of the next batch shows that this batch is done
            with contextlib.suppress(FencedError):  # the next owner sees that the batch is complete
                step("done", log.done, JOURNAL)
        self._metrics.delivered(batch.outcome(stored))

    def _advance(self, batch: GatheredBatch) -> list[DataFile]:
        """Write the last offsets of a batch to the log before these offsets are committed. The batch has no objects."""
        batch.in_flight.step("done", partial(batch.in_flight.assignment.log.advance, batch.ends), JOURNAL)
        return []

    def _store_objects(
        self, batch: GatheredBatch, files: Sequence[DataFile], others: Sequence[LocalObject]
    ) -> list[DataFile]:
        """Do steps 4 to 6. Raise ``FencedError`` if the assignment ended before the files were registered."""
        step, log = batch.in_flight.step, batch.in_flight.assignment.log
        offsets = [part.offsets for part in batch.staged.parts]
        counts = {each.key: each.records for each in others}
        intent = Intent(batch.in_flight.number, offsets, files, counts, batch.ends)
        if files and not self._registrar.is_prepared:
            step("register", lambda: self._prepare(log), REGISTER)
        step("intend", lambda: log.intend(intent), JOURNAL)
        marks = log.marks
        upload = Upload(files, others, self._object_store, self._pool, partial(self._may_upload, log))
        patience = OUTAGE_SECONDS + upload.nbytes / _SLOWEST_UPLOAD
        stored = step("upload", upload.run, replace(UPLOAD, patience=patience))
        if stored is None:
            step("upload", log.verify, JOURNAL)
            raise FatalError("uploading files", "another object has the name of one of them", _FOREIGN_OBJECT)
        registration = self._registrar.new_registration(stored, marks)

        def register() -> None:
            log.verify()  # before each attempt, because partitions may be revoked while the catalog is unavailable
            with self._metrics.waits.answer(_CATALOG):
                registration.run()

        step("register", register, REGISTER)
        log.registered()
        if log.log:
            self._metrics.announce(log.log)  # before ``done``, because ``done`` does not list the files
        return stored

    # --- steps ------------------------------------------------------------------------------------------------------

    def _confirm_topics(self, batch: GatheredBatch) -> None:
        """Raise an error if a topic was recreated, because the new topic's rows would be written under old offsets.

        This step queries Kafka after all rows of the batch were read. The query precedes the intent, because the next
        owner would register an announced batch with complete files.
        """
        tps = [part.offsets.tp for part in batch.staged.parts]
        log = batch.in_flight.assignment.log

        def ask() -> ConnectorError | None:
            log.check_open()  # Kafka has no id for a deleted topic, and revokes the topic's partitions
            return self._recreated(tps)

        if (error := batch.in_flight.step("intend", ask, KAFKA)) is not None:
            raise error

    def _prepare(self, log: OwnLog) -> None:
        """Create or check the table in the catalog before files are uploaded."""
        log.verify(fresh_seconds=self._fresh_seconds)
        with self._metrics.waits.answer(_CATALOG):
            self._registrar.prepare()

    def _may_upload(self, log: OwnLog) -> bool:
        """Return whether an upload may begin. If not, the next owner may have written the same rows."""
        try:
            log.verify(fresh_seconds=self._fresh_seconds)
        except FencedError:
            return False
        return True

    def _note_done(self) -> None:
        """Log that the last batch is in the lake. Otherwise the next start would check the batch's files."""
        try:
            if self._last_log is not None:
                self._last_log.done()
        except FencedError:
            pass  # the next owner has completed the batch or rolled it back
        except ConnectorError as error:
            logger.info("%s; the next start checks automatically whether the last batch is in the lake", error)

    def _delete_late_uploads(self, log: OwnLog) -> None:
        try:
            log.delete_late_uploads()
        except ConnectorError as error:
            logger.info("%s; the file belongs to a batch that was rolled back", error)


class Upload:
    """Does step 5: uploads one batch's objects. A repeated ``run`` uploads only objects that are not stored yet.

    The data files show whether a batch is complete. Therefore the last data file is uploaded after all other objects. A
    batch that contains only data files is uploaded in one round.

    ``may_upload`` returns whether the batch's assignment may still write. If not, no more objects are uploaded, because
    the next owner of a partition may have written the same rows. The upload's thread calls ``may_upload`` immediately
    before each upload. The call may raise the errors of an upload.
    """

    def __init__(
        self,
        files: Sequence[DataFile],
        others: Sequence[LocalObject],
        store: ObjectStore,
        pool: Executor,
        may_upload: Callable[[], bool],
    ) -> None:
        self._files = files
        first_count = len(files) - 1 if others else len(files)
        self._missing: list[_Object] = [*files[:first_count], *others]
        self._last: list[_Object] = [*files[first_count:]]
        self.nbytes = sum(each.path.stat().st_size for each in (*self._missing, *self._last))
        self._is_left_out = False
        self._stored: dict[str, StoredObject] = {}
        self._store = store
        self._pool = pool
        self._may_upload = may_upload

    def run(self) -> list[DataFile] | None:
        """Upload the objects that are not stored yet. Return the data files.

        Returns ``None`` if the assignment may not write any more, or if a different object has the name of an object.
        Raises ``Stopped`` if the pool is shut down, and ``RetryableError`` only if a retry may help.
        """
        for waiting in (self._missing, self._last):
            self._upload(waiting)
            if self._is_left_out:
                return None
        return [replace(file, last_modified=self._stored[file.key].last_modified) for file in self._files]

    def _upload(self, waiting: list[_Object]) -> None:
        """Upload these objects. Objects whose upload fails stay in the list."""
        attempts = [(item, self._begin(item)) for item in waiting]
        waiting.clear()
        errors: list[BaseException] = []
        for item, attempt in attempts:
            error = _wait_for_error(attempt)
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
        except RuntimeError:  # the pool was shut down between two uploads
            raise Stopped from None

    def _put(self, item: _Object) -> StoredObject | None:
        try:
            return self._store.upload(item.path, item.key) if self._may_upload() else None
        except ChangedError:
            return None


def _wait_for_error(attempt: Future[StoredObject | None]) -> BaseException | None:
    """Wait for an upload. ``concurrent.futures.wait`` would never return for a cancelled upload."""
    try:
        return attempt.exception()
    except CancelledError:
        raise Stopped from None
