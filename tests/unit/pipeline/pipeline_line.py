"""A pipeline over real folders, and what it brought into the lake; only Spark and the catalog are stood in for."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from app.bad_records.policy import OnBadRecord
from app.batch_limits import BatchLimits
from app.catalog.registrar import Registrar
from app.errors import ConnectorError
from app.journal.ownership import Ownership
from app.model import Batch, TopicPartition
from app.pipeline.pipeline import Pipeline
from app.pipeline.upload import Destination
from app.table.location import TableLocation
from app.timings import Timings
from tests.fakes.arrow_writer import ArrowWriter
from tests.fakes.memory_catalog import MemoryCatalog
from tests.fakes.moody_store import MoodyStore
from tests.fakes.open_ownership import OpenOwnership
from tests.support.batches import UNBOUNDED, batch, properties, spec, stager

ROOT = "data/t"
HURRY = Timings(first_retry_seconds=0.001, longest_retry_seconds=0.01)
WAIT = 10.0


class Line:
    """A pipeline over real folders, and what it brought into the lake.

    Args:
        tmp_path: a folder for all.
        store: of the folder ``lake`` in it.
        ownership: who may write; by default every assignment that is not in ``ended``.
        choice: what becomes of bad records.
        virtual: partition columns without folders.
        recreated: whether the topic is another one by now.
        writer_up: done once the writer can write.
    """

    def __init__(
        self,
        tmp_path: Path,
        *,
        store: MoodyStore | None = None,
        ownership: Ownership | None = None,
        choice: OnBadRecord = "fail",
        virtual: Sequence[str] = (),
        recreated: Callable[[Sequence[TopicPartition]], ConnectorError | None] = lambda _: None,
        writer_up: Future[None] | None = None,
        limits: BatchLimits = UNBOUNDED,
        free_bytes: Callable[[Path], int] = lambda _: 2**40,
        timings: Timings = HURRY,
    ) -> None:
        self.lake = tmp_path / "lake"
        self.scratch = tmp_path / "scratch"
        self.lake.mkdir()
        self.scratch.mkdir()
        self.store = store or MoodyStore(self.lake)
        self.writer = ArrowWriter()
        self.catalog = MemoryCatalog()
        self.ended: set[str] = set()
        wanted = spec("p")
        self.pipeline = Pipeline(
            writer=self.writer,
            writer_up=writer_up,
            stager=stager(wanted, choice, table_root=ROOT),
            limits=limits,
            destination=Destination(self.store, ROOT, virtual),
            registrar=Registrar(self.catalog, TableLocation(self.store.uri, ROOT), properties("p"), "sensors", None),
            scratch=self.scratch,
            workers=2,
            ownership=ownership or OpenOwnership(lambda token: token not in self.ended),
            recreated=recreated,
            free_bytes=free_bytes,
            timings=timings,
        )

    def submit(self, *batches: Batch) -> None:
        for some in batches:
            self.pipeline.submit(some)

    def delivered(self, number: int) -> bool:
        return self.pipeline.wait_delivered(number, WAIT)

    def failure(self) -> ConnectorError:
        """The failure, once there is one."""
        wait_until(lambda: self.pipeline.failure is not None)
        assert self.pipeline.failure is not None
        return self.pipeline.failure

    def rows(self) -> list[dict[str, Any]]:
        """Rows in the lake, file by file in the order of their names."""
        return [
            values
            for path in sorted(self.lake.rglob("*.parquet"))
            for values in pq.ParquetFile(path).read().to_pylist()
        ]

    def values(self) -> list[Any]:
        return sorted(values["v"] for values in self.rows())


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT
    while not holds():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.005)


class Gate:
    """A place where a thread waits until it is let through."""

    def __init__(self) -> None:
        self._reached, self._open = threading.Event(), threading.Event()

    def __call__(self, *_: object) -> None:
        self._reached.set()
        assert self._open.wait(WAIT)

    def wait_reached(self) -> None:
        assert self._reached.wait(WAIT)

    def open(self) -> None:
        self._open.set()


def one(number: int, *, first: int | None = None, size: int = 100) -> Batch:
    """A batch of one row whose value is the batch's number."""
    return batch({"p": "a", "v": number}, number=number, first=number if first is None else first, size=size)


def bad(number: int) -> Batch:
    """A batch that cannot be staged: its second row fits no folder."""
    return batch({"p": "a", "v": number}, {"p": "a" * 300, "v": number}, number=number, first=number)


def own_threads() -> set[str]:
    """Names of the pipeline's threads that run; a thread of the pool of uploads counts as ``upload``."""
    running = {thread.name.split("_")[0] for thread in threading.enumerate()}
    return running & {"stage", "write", "deliver", "upload"}
