"""A batch's way from rows to the catalog, off the consumer's thread.

1 records   rows → one Arrow table                      ┐ thread "stage"
2 stage     uncompressed Parquet in the scratch folder  ┘
3 spark     partitioned Parquet write                     thread "write"
5 upload    thread pool, MAX_WRITE_WORKERS              ┐ thread "deliver"
6 register  catalog add-files, one request              ┘
(4 and 7 are kept for the journal.) Each thread has one batch at a time and hands it on through a queue of one, so
three batches overlap and the order of batches is kept. A lasting failure goes the same way, behind the
batches before it: these still arrive, and only then the pipeline has failed.
"""

import contextlib
import logging
import queue
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from app.delivery import Registrar, Upload
from app.errors import ConnectorError, FatalError, RetryableError
from app.model import Batch, StagedFile, StoredFile, WrittenFile
from app.partitioning import PartitionSpec
from app.retry import Stopped, until_it_works
from app.staging import stage
from app.storage.base import ObjectStore

logger = logging.getLogger(__name__)

_T = TypeVar("_T")


class Writer(Protocol):
    """Step 3; ``app.spark.SparkWriter`` in production."""

    def write(self, staged: StagedFile, out: Path) -> list[WrittenFile]: ...


@dataclass(slots=True)
class _Job:
    """What is known of a batch on its way; the rows themselves are left behind after step 2."""

    number: int
    reason: str
    seconds: dict[str, float] = field(default_factory=dict)

    def timed(self, step: str, work: Callable[[], _T]) -> _T:
        begin = time.perf_counter()
        try:
            return work()
        finally:
            self.seconds[step] = time.perf_counter() - begin


class _Handover(Generic[_T]):
    """A queue of one that can be given up from outside."""

    def __init__(self, stop: threading.Event) -> None:
        self._queue: queue.Queue[_T] = queue.Queue(maxsize=1)
        self._stop = stop

    def put(self, item: _T) -> None:
        while True:
            if self._stop.is_set():
                raise Stopped
            try:
                return self._queue.put(item, timeout=0.2)
            except queue.Full:
                continue

    def get(self) -> _T:
        while True:
            if self._stop.is_set():
                raise Stopped
            try:
                return self._queue.get(timeout=0.2)
            except queue.Empty:
                continue


class Pipeline:
    """Writes batches in the order they are submitted.

    Args:
        writer: step 3.
        store, table_root, spec: where the table lies and how it is partitioned.
        registrar: step 6.
        scratch: a private folder; each batch leaves it as it found it.
        workers: uploads at the same time.
        is_owner: whether an assignment's token still stands; files of others are neither uploaded nor registered.
    """

    def __init__(
        self,
        *,
        writer: Writer,
        store: ObjectStore,
        table_root: str,
        spec: PartitionSpec,
        registrar: Registrar,
        scratch: Path,
        workers: int,
        is_owner: Callable[[str], bool],
    ) -> None:
        self._writer = writer
        self._store = store
        self._table_root = table_root
        self._spec = spec
        self._registrar = registrar
        self._scratch = scratch
        self._pool = ThreadPoolExecutor(max_workers=workers, thread_name_prefix="upload")
        self._is_owner = is_owner
        self._stop = threading.Event()
        self._changed = threading.Condition()
        self._waiting_rows: queue.SimpleQueue[Batch | None] = queue.SimpleQueue()
        # A failure goes the way of the batches, so that those before it still arrive.
        self._staged: _Handover[tuple[_Job, StagedFile] | ConnectorError] = _Handover(self._stop)
        self._written: _Handover[tuple[_Job, list[WrittenFile]] | ConnectorError] = _Handover(self._stop)
        self._held_bytes = 0
        self._submitted = 0
        self._taken_by_writer = 0
        self._delivered = 0
        self._failure: ConnectorError | None = None
        self._obstacle: RetryableError | None = None
        self._threads = [
            threading.Thread(target=self._run, args=(step, fail), name=name, daemon=True)
            for name, step, fail in (
                ("stage", self._stage_next, self._staged.put),
                ("write", self._write_next, self._written.put),
                ("deliver", self._deliver_next, self._fail),
            )
        ]
        for thread in self._threads:
            thread.start()

    # --- asked by the consumer's thread -----------------------------------------------------------------------------

    def submit(self, batch: Batch) -> None:
        """Take over a batch. Never blocks: how much is under way is the sink's to bound, by ``held_bytes``."""
        with self._changed:
            self._held_bytes += batch.size
            self._submitted = batch.number
        self._waiting_rows.put(batch)

    @property
    def is_idle(self) -> bool:
        """Whether a batch submitted now would be taken up at once: none waits for Spark."""
        return self._taken_by_writer >= self._submitted

    @property
    def held_bytes(self) -> int:
        """Size of the submitted rows that are still held in Python, in bytes."""
        return self._held_bytes

    @property
    def failure(self) -> ConnectorError | None:
        """What stopped the pipeline for good."""
        return self._failure

    @property
    def obstacle(self) -> RetryableError | None:
        """What the pipeline waits for to go away at present."""
        return self._obstacle

    def wait_delivered(self, number: int, seconds: float) -> bool:
        """Wait until all batches up to ``number`` are uploaded and registered.

        Returns:
            Whether they are. ``False`` after ``seconds``, and at once when ``failure`` is set.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._delivered >= number or self._failure is not None, seconds)
            return self._delivered >= number

    def stop(self) -> None:
        """Give up what is under way and end the threads, as far as they are not stuck in a call."""
        self._stop.set()
        self._waiting_rows.put(None)
        self._pool.shutdown(wait=False, cancel_futures=True)
        for thread in self._threads:
            thread.join(timeout=1.0)

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

    def _fail(self, error: ConnectorError) -> None:
        with self._changed:
            self._failure = self._failure or error
            self._changed.notify_all()
        self._stop.set()

    def _stage_next(self) -> None:
        batch = self._waiting_rows.get()
        if batch is None:
            raise Stopped
        staged = self._stage(batch)
        del batch  # this frame would keep the rows while the next step is busy
        self._staged.put(staged)

    def _stage(self, batch: Batch) -> tuple[_Job, StagedFile]:
        job = _Job(batch.number, batch.reason)
        path = self._scratch / f"staged-{batch.number}.parquet"
        staged = job.timed("stage", lambda: stage(batch, self._spec, self._table_root, path))
        with self._changed:
            self._held_bytes -= batch.size
        return job, staged

    def _write_next(self) -> None:
        job, staged = _unless_failed(self._staged.get())
        self._taken_by_writer = job.number
        out = self._scratch / f"written-{job.number}"
        files = job.timed("spark", lambda: self._writer.write(staged, out))
        staged.path.unlink()
        self._written.put((job, files))

    def _deliver_next(self) -> None:
        job, files = _unless_failed(self._written.get())
        upload = Upload(files, self._store, self._table_root, self._pool, self._is_owner)
        job.timed("upload", lambda: self._until_it_works(upload.run))
        stored = job.timed("register", lambda: self._until_it_works(lambda: self._register(upload.stored())))
        if len(stored) < len(files):
            logger.info("batch %d: dropped %d files of partitions given away", job.number, len(files) - len(stored))
        shutil.rmtree(self._scratch / f"written-{job.number}")
        _log(job, stored)
        with self._changed:
            self._delivered = job.number
            self._changed.notify_all()

    def _register(self, files: list[StoredFile]) -> list[StoredFile]:
        self._registrar.register(files)
        return files

    def _until_it_works(self, work: Callable[[], _T]) -> _T:
        return until_it_works(work, stop=self._stop, on_wait=self._set_obstacle, clock=time.monotonic)

    def _set_obstacle(self, error: RetryableError | None) -> None:
        with self._changed:
            self._obstacle = error
            self._changed.notify_all()


def _unless_failed(item: _T | ConnectorError) -> _T:
    """What the step before has done, unless it failed."""
    if isinstance(item, ConnectorError):
        raise item
    return item


def _log(job: _Job, stored: Sequence[StoredFile]) -> None:
    steps = ", ".join(f"{step} {seconds:.2f}" for step, seconds in job.seconds.items())
    size = sum(file.size for file in stored)
    rows = sum(file.rows for file in stored)
    logger.info(
        "batch %d (%s): %s rows in %s files, %s bytes; %.2f s: %s",
        job.number,
        job.reason,
        f"{rows:,}",
        f"{len(stored):,}",
        f"{size:,}",
        sum(job.seconds.values()),
        steps,
    )
