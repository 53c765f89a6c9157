"""A pipeline over real folders, and what it brought into the lake; only Spark and the catalog are stood in for."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from app.journal.ownership import Ownership

from app.bad_records.policy import OnBadRecord
from app.catalog.registrar import Registrar
from app.errors import ConnectorError
from app.model import Batch, TopicPartition
from app.monitoring.metrics import Metrics
from app.pipeline.limits import BatchLimits
from app.pipeline.pipeline import Pipeline
from app.table.location import TableLocation
from app.timings import Timings
from tests.fakes.arrow_writer import ArrowWriter
from tests.fakes.memory_catalog import MemoryCatalog
from tests.fakes.moody_store import MoodyStore
from tests.fakes.open_ownership import OpenOwnership
from tests.support import waiting
from tests.support.batches import UNBOUNDED, batch, properties, spec, stager

ROOT = "data/t"
NewLine = Callable[..., Any]  # a new line of the class given, by default ``Line``, with these arguments
HURRY = Timings(first_retry_seconds=0.001, longest_retry_seconds=0.01)


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
        self.metrics = Metrics(timings=timings)
        wanted = spec("p")
        self.pipeline = Pipeline(
            writer=self.writer,
            writer_up=writer_up,
            stager=stager(wanted, choice, table_root=ROOT),
            limits=limits,
            store=self.store,
            registrar=Registrar(
                self.catalog,
                TableLocation(self.store.uri, ROOT),
                replace(properties("p"), virtual_columns=tuple(virtual)),
                "sensors",
                None,
            ),
            scratch=self.scratch,
            workers=2,
            ownership=ownership or OpenOwnership(lambda token: token not in self.ended),
            recreated=recreated,
            free_bytes=free_bytes,
            metrics=self.metrics,
            timings=timings,
        )

    def submit(self, *batches: Batch) -> None:
        for some in batches:
            self.pipeline.submit(some)

    def delivered(self, number: int) -> bool:
        """Wait until all up to ``number`` is in the lake, or the pipeline has failed; returns whether it is."""

        def has_ended() -> bool:
            return self.pipeline.wait_delivered(number, 0.05) or self.pipeline.failure is not None

        waiting.wait_until(has_ended, f"batch {number} is in the lake")
        return self.pipeline.wait_delivered(number, 0.0)

    def failure(self) -> ConnectorError:
        """The failure, once there is one."""
        waiting.wait_until(lambda: self.pipeline.failure is not None, "the pipeline fails")
        assert self.pipeline.failure is not None
        return self.pipeline.failure

    def wait_for_obstacle(self) -> None:
        waiting.wait_until(lambda: self.pipeline.obstacle is not None, "something is away")

    def rows(self) -> list[dict[str, Any]]:
        """Rows in the lake, file by file in the order of their names."""
        return [
            values
            for path in sorted(self.lake.rglob("*.parquet"))
            for values in pq.ParquetFile(path).read().to_pylist()
        ]

    def values(self) -> list[Any]:
        return sorted(values["v"] for values in self.rows())


class Gate:
    """A place where a thread waits until it is let through."""

    def __init__(self) -> None:
        self._reached, self._open = threading.Event(), threading.Event()

    def __call__(self, *_: object) -> None:
        self._reached.set()
        waiting.wait_for(self._open, "the test opens the gate")

    def wait_reached(self) -> None:
        waiting.wait_for(self._reached, "a thread comes to the gate")

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
