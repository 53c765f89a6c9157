"""Steps 1 to 7 of a batch, from rows to the catalog, off the consumer's thread.

1 convert   records → Arrow tables                      ┐ thread "stage", portion by portion
2 stage     uncompressed Parquet in the scratch folder  ┘
3 spark     partitioned Parquet write                     thread "write"
  confirm   the topic is the one that was claimed       ┐
4 intend    the journal announces the files             │
5 upload    thread pool, MAX_WRITE_WORKERS              │ thread "deliver"
6 register  catalog add-files                           │
7 done      the journal says that all is in the lake    ┘
Each thread has one batch at a time and hands it on through a queue of one, so
three batches overlap and the order of batches is kept. A lasting failure goes the same way, behind the
batches before it: these still arrive, and only then the pipeline has failed.
"""

import contextlib
import logging
import queue
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for_futures
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from app.batch_limits import BEFORE_FAILURE, LITTLE_ROOM, OTHER_COLUMNS, OTHER_OWNER, BatchLimits
from app.catalog.registrar import Registrar
from app.convert.batch import Converted
from app.errors import ConnectorError, FatalError
from app.journal.generation import Intent
from app.journal.ownership import Ownership
from app.model import Batch, StagedFile, StoredFile, TopicPartition, WrittenFile
from app.monitoring.metrics import Metrics
from app.monitoring.waits import OUTAGE_SECONDS, Operation, Request, Stopped
from app.pipeline.in_flight import BatchInFlight, Handover
from app.pipeline.open_batch import OpenBatch
from app.pipeline.stage import Stager
from app.pipeline.upload import Destination, Upload, UploadItem
from app.timings import DEFAULT, Timings

logger = logging.getLogger(__name__)

_STOP_LOOK_SECONDS = 0.2  # between two checks whether the pipeline is stopped
_MORE_ROOM = "Give the temporary folder more room (TMPDIR, or the size of the tmpfs)"
_FOREIGN_OBJECT = "No other batch has such names: find the program that writes into the table's folder"
_SLOWEST_UPLOAD = 2**20  # bytes a second; a store that takes fewer is away
# The system and the request of each operation.
_REQUESTS: Mapping[Operation, Request] = {
    "schema": Request("store", "reading the table's schema", "schema"),
    "kafka": Request("Kafka", "asking for the ids of the topics", "kafka"),
    "journal": Request("store", "writing the journal", "journal"),
    "upload": Request("store", "uploading files", "upload"),
    "register": Request("store", "reading the journal before files are registered", "register"),
}
_OF_CATALOG = Request("catalog", "registering the table or its files")
_T = TypeVar("_T")


class Writer(Protocol):
    """Step 3; ``app.spark.writer.SparkWriter`` in production."""

    def write(self, staged: StagedFile, out: Path) -> list[WrittenFile]: ...


class Pipeline:
    """Writes batches in the order they are submitted.

    Args:
        writer: step 3.
        writer_up: done once the writer can write. Until then batches are staged and wait; if it fails, so does the
            pipeline. Without one, the writer can write from the start.
        stager: steps 1 and 2.
        limits: decide when a batch ends.
        destination: where the table's objects go.
        registrar: step 6.
        scratch: a private folder; each batch leaves it as it found it.
        workers: uploads at the same time.
        ownership: decides whether a generation may upload and register; steps 4 and 7.
        recreated: called with the partitions of each batch before its first object leaves this machine. Returns the
            error to end with if the topic was recreated since they were read. May raise as a step may.
        free_bytes: the room that a folder's disk has.
        metrics: counts batches that are in the lake, and tries that failed.
        timings: the pauses between tries, and the clock.
    """

    def __init__(
        self,
        *,
        writer: Writer,
        stager: Stager,
        limits: BatchLimits,
        destination: Destination,
        registrar: Registrar,
        scratch: Path,
        workers: int,
        ownership: Ownership,
        writer_up: Future[None] | None = None,
        recreated: Callable[[Sequence[TopicPartition]], ConnectorError | None] = lambda _: None,
        free_bytes: Callable[[Path], int] = lambda folder: shutil.disk_usage(folder).free,
        metrics: Metrics | None = None,
        timings: Timings = DEFAULT,
    ) -> None:
        self._timings = timings
        self._writer = writer
        self._writer_up = writer_up
        self._stager = stager
        self._limits = limits
        self._open: tuple[BatchInFlight, OpenBatch] | None = None  # of the thread "stage"
        self._destination = destination
        self._registrar = registrar
        self._scratch = scratch
        self._pool = ThreadPoolExecutor(max_workers=workers, thread_name_prefix="upload")
        self._ownership = ownership
        self._recreated = recreated
        self._free_bytes = free_bytes
        self._metrics = metrics or Metrics(timings=timings)
        self._stop = threading.Event()
        self._changed = threading.Condition()
        self._waiting_rows: queue.SimpleQueue[Batch | None] = queue.SimpleQueue()
        # A failure goes the way of the batches, so that those before it still arrive.
        self._staged: Handover[tuple[BatchInFlight, StagedFile | None] | ConnectorError] = Handover(self._stop)
        self._written: Handover[tuple[BatchInFlight, list[WrittenFile]] | ConnectorError] = Handover(self._stop)
        self._held_bytes = 0
        self._submitted = 0  # portions
        self._delivered = 0  # portions
        self._closed_portion = 0
        self._begun = 0  # batches
        self._ended = 0  # batches that are in the lake
        self._waiting_for_writer = 0  # batches
        self._stored_share: float | None = None  # size of the last batch's files, by that of its staged file
        self._failure: ConnectorError | None = None
        self._threads = [
            threading.Thread(target=self._run, args=(step, fail), name=name, daemon=True)
            for name, step, fail in (
                ("stage", self._stage_next, self._staged.put),
                ("write", self._write_next, self._written.put),
                ("deliver", self._deliver_next, self.fail),
            )
        ]
        for thread in self._threads:
            thread.start()

    # --- asked by the consumer's thread -----------------------------------------------------------------------------

    def submit(self, batch: Batch) -> None:
        """Take over a portion. Never blocks: the sink bounds the rows in Python, by ``held_bytes``."""
        with self._changed:
            self._held_bytes += batch.size
            self._submitted = batch.number
            self._waiting_for_writer += batch.reason is not None
        self._waiting_rows.put(batch)

    @property
    def is_idle(self) -> bool:
        """Whether a batch that ends now would be taken up at once: none waits for Spark."""
        return not self._waiting_for_writer

    @property
    def closed_portion(self) -> int:
        """The last portion of the batch that ended last; later ones are of the batch that is gathered."""
        return self._closed_portion

    @property
    def held_bytes(self) -> int:
        """Size of the submitted rows that are still held in Python, in bytes."""
        return self._held_bytes

    @property
    def under_way(self) -> int:
        """The number of batches that have begun and are not in the lake yet."""
        return max(self._begun - self._ended, int(self._submitted > self._delivered))

    @property
    def failure(self) -> ConnectorError | None:
        """The error that stopped the pipeline."""
        return self._failure

    @property
    def obstacle(self) -> ConnectorError | None:
        """The error that the pipeline waits out at present."""
        return self._metrics.waits.failing(*_REQUESTS)

    def wait_delivered(self, number: int, seconds: float) -> bool:
        """Wait until all portions up to ``number`` are uploaded and registered.

        Returns:
            Whether they are. ``False`` after ``seconds``, and at once when ``failure`` is set.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._delivered >= number or self._failure is not None, seconds)
            return self._delivered >= number

    def wait_for_change(self, seconds: float) -> None:
        """Wait until a batch has come a step further, or so long."""
        with self._changed:
            self._changed.wait(seconds)

    def stop(self) -> None:
        """Give up what is under way and end the threads, as far as they are not stuck in a call."""
        self._stop.set()
        self._waiting_rows.put(None)
        self._pool.shutdown(wait=False, cancel_futures=True)
        for thread in self._threads:
            thread.join(timeout=1.0)

    def fail(self, error: ConnectorError) -> None:
        """Give up what is under way for this reason, unless it has failed already. Safe from any thread."""
        with self._changed:
            self._failure = self._failure or error
            self._changed.notify_all()
        self._stop.set()

    # --- the three threads ------------------------------------------------------------------------------------------

    def _run(self, step: Callable[[], None], fail: Callable[[ConnectorError], None]) -> None:
        with contextlib.suppress(Stopped):
            fail(self._failure_of(step))

    def _failure_of(self, step: Callable[[], None]) -> ConnectorError:
        """Do the step again and again until it fails."""
        while True:
            try:
                step()
            except Stopped:
                raise
            except ConnectorError as error:
                return error
            except Exception as error:
                logger.debug("the pipeline failed", exc_info=True)
                hint = "Please report this as a bug, with the log at DEBUG"
                return FatalError("writing a batch", repr(error), hint)

    def _stage_next(self) -> None:
        try:
            self._stage()
        except OSError as error:
            raise FatalError("gathering rows in the temporary folder", str(error), _MORE_ROOM) from None

    def _stage(self) -> None:
        portion = self._waiting_rows.get()
        if portion is None:
            raise Stopped
        self._gather(portion)
        reason = portion.reason
        with self._changed:
            self._held_bytes -= portion.size
            self._changed.notify_all()
        del portion  # this frame would keep the rows while the next step is busy
        if reason:
            self._close(reason)
        elif early := self._reason_to_close():
            self._close_early(early)

    def _gather(self, portion: Batch) -> None:
        """Convert the portion and append it to the open batch; where it does not fit to that, this is closed first."""
        in_flight, batch = self._opened()
        if not in_flight.is_of_owner(portion):
            del batch  # it has rejected records, and the next step may be busy for long
            self._close_early(OTHER_OWNER)
            in_flight, batch = self._opened()
        if portion.parts:
            patiently = partial(self._until_it_works, in_flight, "schema")
            try:
                converted = in_flight.timed("convert", lambda: self._stager.convert(portion, patiently))
            except Stopped:
                raise
            except Exception:
                if in_flight.last_portion:
                    self._close_early(BEFORE_FAILURE)
                raise
            if converted.rows:
                rows = replace(converted.rows, table=self._registrar.in_files(converted.rows.table))
                converted = replace(converted, rows=rows)
            if not batch.takes(converted.rows):
                del batch
                self._close_early(OTHER_COLUMNS)
                in_flight, batch = self._opened()
            if in_flight.last_portion and not self._has_room(converted, batch):
                del batch
                self._close_early(LITTLE_ROOM)
                self._wait_for_room(converted)
                in_flight, batch = self._opened()
            in_flight.timed("stage", lambda: batch.append(portion, converted))
        in_flight.add(portion)

    def _has_room(self, converted: Converted, batch: OpenBatch | None = None) -> bool:
        """Whether the scratch folder takes these rows, and then what Spark makes of them and of three batches."""
        rows = converted.rows.table.nbytes if converted.rows else 0
        staged = batch.size.staged_bytes if batch else 0
        return self._free_bytes(self._scratch) >= self._limits.room_for(rows, staged)

    def _wait_for_room(self, converted: Converted) -> None:
        """Wait until there is room, or until no batch is left whose end would make any."""
        if self._has_room(converted):
            return
        logger.warning("the temporary folder %s is nearly full: waiting until batches are in the lake", self._scratch)
        with self._changed:
            while self._ended < self._begun and not self._has_room(converted):
                if self._stop.is_set():
                    raise Stopped
                self._changed.wait(_STOP_LOOK_SECONDS)

    def _opened(self) -> tuple[BatchInFlight, OpenBatch]:
        if self._open is None:
            self._begun += 1
            in_flight = BatchInFlight(self._begun, self._scratch / f"batch-{self._begun}", self._timings.clock)
            in_flight.folder.mkdir()
            self._open = in_flight, self._stager.open(self._begun, in_flight.folder / "staged.parquet")
        return self._open

    def _reason_to_close(self) -> str | None:
        _, batch = self._opened()
        return self._limits.after_portion(batch.size, is_writer_idle=self.is_idle, stored_share=self._stored_share)

    def _close_early(self, reason: str) -> None:
        """Hand the open batch on, though the consumer has not ended it and so has not counted it for the writer."""
        with self._changed:
            self._waiting_for_writer += 1
        self._close(reason)

    def _close(self, reason: str) -> None:
        """Hand the open batch on; nothing of it stays here while the next step is busy."""
        in_flight, file = self._closed(reason)
        self._staged.put((in_flight, file))

    def _closed(self, reason: str) -> tuple[BatchInFlight, StagedFile | None]:
        (in_flight, batch), self._open = self._opened(), None
        self._closed_portion = in_flight.last_portion
        in_flight.reason = reason
        staged = batch.close()
        in_flight.parts, in_flight.rescued = staged.parts, staged.rescued
        in_flight.rejected = sum(len(records) for _, records in staged.rejected)
        in_flight.dead_letters = self._destination.dead_letters(staged.rejected, in_flight.folder)
        return in_flight, staged.file

    def _write_next(self) -> None:
        self._wait_for_writer()
        batch, staged = _unless_failed(self._staged.get())
        with self._changed:
            self._waiting_for_writer -= 1
            self._changed.notify_all()
        files = []
        if staged:
            files = batch.timed("spark", lambda: self._writer.write(staged, batch.folder / "written"))
            self._stored_share = sum(file.size for file in files) / staged.path.stat().st_size
            staged.path.unlink()
        self._written.put((batch, files))

    def _wait_for_writer(self) -> None:
        """Wait until the writer has started.

        Raises:
            ConnectorError: it cannot start. There may be no batch that would find out.
        """
        if self._writer_up is None:
            return
        while not self._writer_up.done():
            if self._stop.is_set():
                raise Stopped
            wait_for_futures([self._writer_up], timeout=_STOP_LOOK_SECONDS)
        self._writer_up.result()

    def _prepare(self, token: str) -> None:
        """Create or check the table in the catalog, if files will be uploaded to it."""
        if self._ownership.is_owner(token):
            with self._metrics.waits.answer(_OF_CATALOG):
                self._registrar.prepare()

    def _confirm_topics(self, batch: BatchInFlight) -> None:
        """End where a topic was recreated: rows of the new one would be written under the old one's offsets.

        Kafka is asked after the batch has ended, so that all its rows were read before; and before its intent, because
        the next owner registers a batch whose files are complete.
        """
        tps = [part.offsets.tp for part in batch.parts]
        error = self._until_it_works(batch, "kafka", lambda: self._recreated(tps))
        if error is not None:
            raise error

    def _deliver_next(self) -> None:
        try:
            self._deliver(*_unless_failed(self._written.get()))
        except Exception:
            self._note_done()
            raise

    def _note_done(self) -> None:
        """Note that the last batch is in the lake; without that note the next start would check its files."""
        try:
            self._ownership.done()
        except ConnectorError as error:
            logger.info("%s; the next start finds out by itself that the last batch is in the lake", error)

    def _abandon(self) -> None:
        try:
            self._ownership.abandon()
        except ConnectorError as error:
            logger.info("%s; it is a file of a batch that was undone", error)

    def _deliver(self, batch: BatchInFlight, files: Sequence[WrittenFile]) -> None:
        if batch.parts:
            self._store(batch, files)
        elif batch.ends:
            self._advance(batch)
        elif self._written.is_empty:  # the consumer ended a batch that was closed before, which may wait for this
            self._note_done()
        shutil.rmtree(batch.folder)
        with self._changed:
            self._ended += 1
            self._delivered = batch.last_portion
            self._changed.notify_all()

    def _store(self, batch: BatchInFlight, files: Sequence[WrittenFile]) -> None:
        self._confirm_topics(batch)
        to = self._destination
        upload_items = [to.data_file(file) for file in files] + batch.dead_letters + to.sidecars(files, batch.folder)
        intent = to.intent(batch.parts, files, upload_items, batch.ends)
        stored = self._store_announced(batch, intent, files, upload_items) if intent else self._advance(batch)
        if self._written.is_empty:  # else the next batch's intent says it, or is followed by this
            batch.timed("done", lambda: self._until_it_works(batch, "journal", self._ownership.done))
        if stored is None:
            self._abandon()
        dropped = len(upload_items) if stored is None else 0
        self._metrics.delivered(batch.delivered(stored or [], dropped))

    def _advance(self, batch: BatchInFlight) -> Sequence[StoredFile]:
        """Write how far was read where nothing is to be stored, before the offsets are committed."""
        advance = partial(self._ownership.advance, batch.owner, batch.ends)
        batch.timed("done", lambda: self._until_it_works(batch, "journal", advance))
        return []

    def _store_announced(
        self, batch: BatchInFlight, intent: Intent, files: Sequence[WrittenFile], upload_items: Sequence[UploadItem]
    ) -> Sequence[StoredFile] | None:
        """Steps 4 to 6.

        Returns:
            The files in the lake; ``None`` if the batch's generation ended before they were registered.
        """
        token = batch.owner
        to = self._destination
        if files and not self._registrar.is_prepared:
            self._until_it_works(batch, "register", lambda: self._prepare(token))
        if not batch.timed(
            "intend", lambda: self._until_it_works(batch, "journal", partial(self._ownership.intend, token, intent))
        ):
            return None
        marks = self._ownership.marks(token)
        data = {file.key for file in intent.files}
        upload = Upload(upload_items, data, to.store, self._pool, partial(self._ownership.is_owner, token))
        patience = OUTAGE_SECONDS + sum(item.path.stat().st_size for item in upload_items) / _SLOWEST_UPLOAD
        uploaded = batch.timed("upload", lambda: self._until_it_works(batch, "upload", upload.run, patience))
        if uploaded is None:
            if self._until_it_works(batch, "journal", partial(self._ownership.confirm, token)):
                raise FatalError("uploading files", "another object has the name of one of them", _FOREIGN_OBJECT)
            return None
        footers = to.footers(files if self._registrar.is_needed else [])
        stored = to.stored_files(files, uploaded, footers)
        registration = self._registrar.new_registration(marks)

        def register() -> bool:
            """Verifies the ownership at each try: while a catalog is away, a partition may be revoked."""
            if not self._ownership.confirm(token):
                return False
            with self._metrics.waits.answer(_OF_CATALOG):
                registration.run(stored)
            return True

        if not batch.timed("register", lambda: self._until_it_works(batch, "register", register)):
            return None
        self._ownership.registered(token, intent.batch)
        return stored

    def _until_it_works(
        self, batch: BatchInFlight, step: Operation, work: Callable[[], _T], patience: float = OUTAGE_SECONDS
    ) -> _T:
        """Do this for the batch, again and again until it works; an answer that takes longer is an outage too."""

        def add_waited(seconds: float) -> None:
            batch.waited += seconds

        request = replace(_REQUESTS[step], patience=patience)
        return self._metrics.waits.retry(request, work, stop=self._stop, add_waited=add_waited)


def _unless_failed(item: _T | ConnectorError) -> _T:
    """Returns the result of the step before.

    Raises:
        ConnectorError: that step failed.
    """
    if isinstance(item, ConnectorError):
        raise item
    return item
