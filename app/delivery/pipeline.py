"""Steps 1 to 7 of a batch, from records to the catalog, off the consumer's thread.

1 convert   records → Arrow tables                      ┐ thread "stage", portion by portion: ``gather``
2 stage     uncompressed Parquet in the scratch folder  ┘
3 spark     partitioned Parquet write                     thread "write"
  confirm   the topic is the one that was claimed       ┐
4 intend    the log announces the files                 │
5 upload    thread pool, MAX_WRITE_WORKERS              │ thread "deliver": ``deliver``
6 register  catalog add-files                           │
7 done      the log says that all is in the lake        ┘
Each thread has one batch at a time and hands it on through a queue of one, so three batches overlap and the order of
batches is kept. A lasting failure goes the same way, behind the batches before it: these still arrive, and only then
the pipeline has failed.
"""

import contextlib
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import wait as wait_for_futures
from pathlib import Path
from typing import Protocol

from app.delivery.assignment import Assignment
from app.delivery.deliver import Delivery
from app.delivery.flow import Flow
from app.delivery.gather import Gathering
from app.errors import ConnectorError, FatalError
from app.model import DataFile, StagedFile
from app.monitoring.waits import Stopped

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 0.1  # between two looks whether the batch is to end, where no records come


class Writer(Protocol):
    """Step 3; ``app.spark.writer.SparkWriter`` in production."""

    def write(self, staged: StagedFile, out: Path) -> list[DataFile]: ...


class Pipeline:
    """Writes batches in the order in which their records come.

    Until ``writer_up`` is done, batches are staged and wait; if it fails, so does the pipeline. ``fail`` gives up what
    is under way for a reason; safe from any thread.
    """

    def __init__(
        self,
        flow: Flow,
        gathering: Gathering,
        writer: Writer,
        delivery: Delivery,
        writer_up: Future[None] | None = None,
    ) -> None:
        self._flow = flow
        self._gathering = gathering
        self._writer = writer
        self._delivery = delivery
        self._writer_up = writer_up
        self._threads: list[threading.Thread] = []
        self.limits = gathering.limits
        self.fail = flow.fail

    def start(self) -> None:
        for name, step, fail in (
            ("stage", lambda: self._gathering.step(_LOOK_SECONDS), self._flow.staged.put),
            ("write", self.write_next, self._flow.written.put),
            ("deliver", self._delivery.step, self._flow.fail),
        ):
            thread = threading.Thread(target=_run, args=(step, fail), name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """Give up what is under way and end the threads, as far as they are not stuck in a call."""
        self._flow.stop.set()
        self._delivery.stop()
        for thread in self._threads:
            thread.join(timeout=1.0)

    # --- asked by the consumer's thread -----------------------------------------------------------------------------

    @property
    def held_bytes(self) -> int:
        return self._flow.held_bytes

    @property
    def room(self) -> int:
        """Bytes of records that may be taken before the buffer is full."""
        return self.limits.max_buffer_bytes - self.held_bytes

    @property
    def is_full(self) -> bool:
        return self.limits.is_full(self.held_bytes)

    @property
    def flush_reason(self) -> str:
        return self.limits.at_flush(self.held_bytes)

    @property
    def due_in(self) -> float:
        return self._gathering.ends.due_in

    @property
    def under_way(self) -> int:
        """The number of batches that have begun and are not in the lake yet."""
        return self._flow.begun - self._flow.ended

    @property
    def failure(self) -> ConnectorError | None:
        return self._flow.failure

    def raise_failure(self) -> None:
        if self.failure is not None:
            raise self.failure

    @property
    def is_in_trouble(self) -> bool:
        """Whether it waits for another system, or has failed."""
        return self.obstacle is not None or self.failure is not None

    @property
    def obstacle(self) -> ConnectorError | None:
        """The error that the pipeline waits out at present."""
        return self._flow.obstacle

    def wait_delivered(self, assignment: Assignment, seconds: float) -> bool:
        """Whether all that was taken is in lake and log; waits for it, unless it cannot be any more."""

        def has_ended() -> bool:
            return assignment.is_delivered or assignment.is_over or self.failure is not None

        with self._flow.changed:
            self._flow.changed.wait_for(has_ended, seconds)
        return assignment.is_delivered

    def wait_for_change(self, seconds: float) -> None:
        self._flow.wait(seconds)

    # --- the thread "write" -----------------------------------------------------------------------------------------

    def write_next(self) -> None:
        """Step 3 of the next batch; one of an assignment that is over needs none."""
        self._wait_for_writer()
        batch, staged = self._flow.staged.get()
        files = []
        if staged and not batch.assignment.is_over:
            files = batch.timed("spark", lambda: self._writer.write(staged, batch.folder / "written"))
            self._gathering.stored_share = sum(file.size for file in files) / staged.path.stat().st_size
            staged.path.unlink()
        self._flow.written.put((batch, files))

    def _wait_for_writer(self) -> None:
        """Wait until the writer has started. If it cannot, there may be no batch that would find out."""
        if self._writer_up is None:
            return
        while not self._writer_up.done():
            if self._flow.stop.is_set():
                raise Stopped
            wait_for_futures([self._writer_up], timeout=_LOOK_SECONDS)
        self._writer_up.result()


def _run(step: Callable[[], None], fail: Callable[[ConnectorError], None]) -> None:
    """Do the step again and again until it fails."""
    with contextlib.suppress(Stopped):
        try:
            while True:
                step()
        except Stopped:
            raise
        except ConnectorError as error:
            fail(error)
        except Exception as error:
            logger.debug("the pipeline failed", exc_info=True)
            cause = type(error).__name__  # its message may quote a record
            fail(FatalError("writing a batch", cause, "Please report this as a bug, with the log at DEBUG"))
