"""Steps 1 to 7 of a batch, from records to the catalog, on separate threads.

1 convert   records → Arrow tables                      ┐ thread "stage", portion by portion: ``gather``
2 stage     uncompressed Parquet in the scratch folder  ┘
3 spark     partitioned Parquet write                     thread "write"
  confirm   the topic is the one that was claimed       ┐
4 intend    the log announces the files                 │
5 upload    thread pool, MAX_WRITE_WORKERS              │ thread "deliver": ``deliver``
6 register  catalog add-files                           │
7 done      the log says that the batch is in the lake  ┘
Each thread processes one batch at a time, and at most one batch waits in each queue between threads. Therefore three
batches overlap, and batches keep their order. A failure that retries cannot correct goes through the same queues.
Therefore earlier batches still arrive in the lake before the pipeline fails.
"""

import contextlib
import logging
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import wait as wait_for_futures
from functools import partial
from pathlib import Path
from typing import Protocol

from app.delivery.deliver import Delivery
from app.delivery.flow import Flow
from app.delivery.gather import Gathering
from app.errors import ConnectorError, FatalError
from app.model import DataFile, StagedFile
from app.retries import Stopped
from app.work_pool import WorkPool

logger = logging.getLogger(__name__)

_MORE_ROOM = "Give the temporary folder more room (TMPDIR, or the size of the tmpfs)"
_LOOK_SECONDS = 0.1  # interval of the checks whether the writer has started


class Writer(Protocol):
    """Does step 3. The product uses ``app.spark.writer.SparkWriter``. After ``up`` is done, the writer can write."""

    up: Future[None]

    def write(self, staged: StagedFile, out: Path) -> list[DataFile]: ...


class Pipeline:
    """Writes batches in the order of their records, on separate threads.

    Before the writer has started, batches are staged and wait. If the writer fails, the pipeline fails.
    """

    def __init__(self, flow: Flow, gathering: Gathering, writer: Writer, delivery: Delivery) -> None:
        self._flow = flow
        self.gathering = gathering
        self._writer = writer
        self.delivery = delivery
        self._threads = {
            "stage": _Thread("stage", flow.staged.put),
            "write": _Thread("write", flow.written.put),
            "deliver": _Thread("deliver", flow.fail),
        }

    def start(self) -> None:
        """Let the threads begin. Each thread waits until work exists."""
        stage, write, deliver = self._threads.values()
        self.gathering.on_submit = partial(stage.do_once, self.gathering.take_all)
        self._flow.staged.on_put = partial(write.do, self.write_next)
        self._flow.written.on_put = partial(deliver.do, self.delivery.step)
        write.do(self._wait_for_writer)

    def stop(self) -> None:
        """Drop the batches in progress, and end the threads. A thread that is stuck in a call continues."""
        self._flow.stop.set()
        self.delivery.stop()
        for thread in self._threads.values():
            thread.pool.join(1.0)

    def write_next(self) -> None:
        """Do step 3 for the next batch. If the assignment has ended, skip step 3."""
        self._wait_for_writer()
        batch = self._flow.staged.get()
        files: list[DataFile] = []
        if (staged := batch.staged.file) and not batch.in_flight.assignment.is_over:
            out = batch.in_flight.folder / "written"
            files = batch.in_flight.step("spark", lambda: self._writer.write(staged, out))
            self._flow.stored_share = sum(file.size for file in files) / staged.path.stat().st_size
            staged.path.unlink()
        self._flow.written.put((batch, files))

    def _wait_for_writer(self) -> None:
        """Wait until the writer has started. Raise the writer's error, even if no batch waits for the writer."""
        while not self._writer.up.done():
            if self._flow.stop.is_set():
                raise Stopped
            wait_for_futures([self._writer.up], timeout=_LOOK_SECONDS)
        self._writer.up.result()


class _Thread:
    """Does one piece of work after another. After a failure, the thread does no more work."""

    def __init__(self, name: str, fail: Callable[[ConnectorError], None]) -> None:
        self.pool = WorkPool(name)
        self._fail = fail
        self._has_ended = False

    def do(self, work: Callable[[], object]) -> None:
        self.pool.submit(self._do, work)

    def do_once(self, work: Callable[[], object]) -> None:
        """Do the work after the work in progress. If other work waits already, do nothing."""
        if not self.pool.waiting:
            self.do(work)

    def _do(self, work: Callable[[], object]) -> None:
        if self._has_ended:
            return
        try:
            work()
        except Stopped:
            self._has_ended = True
        except ConnectorError as error:
            self._end(error)
        except OSError as error:  # not from a store, because stores raise ``ConnectorError``
            self._end(FatalError("writing in the temporary folder", str(error), _MORE_ROOM))
        except Exception as error:
            logger.debug("the pipeline failed", exc_info=True)
            cause = type(error).__name__  # the error's message may quote a record
            self._end(FatalError("writing a batch", cause, "Please report this as a bug, with the log at DEBUG"))

    def _end(self, error: ConnectorError) -> None:
        self._has_ended = True
        with contextlib.suppress(Stopped):
            self._fail(error)
