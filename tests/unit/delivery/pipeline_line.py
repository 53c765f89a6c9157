"""A world with a pipeline at work, and what it brought into the lake."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq

from app.bad_records.refusals import OnBadRecord
from app.consumer.rows import row_of
from app.delivery.assignment import Assignment, Piece
from app.delivery.batch_limits import BatchLimits
from app.delivery.claimer import Group
from app.delivery.runtime import Threads
from app.errors import ConnectorError
from app.journal.entry import is_log
from app.journal.log import AssignmentLog
from app.kafka.watch import KafkaWatch
from app.model import TopicPartition
from app.storage.base import Content, StoredObject
from app.timings import Timings
from tests.fakes.arrow_writer import ArrowWriter
from tests.fakes.journal_store import JournalStore
from tests.fakes.memory_catalog import MemoryCatalog
from tests.support import waiting
from tests.support.batches import UNBOUNDED, row, spec, stager
from tests.support.world import LOG_FORM, P0, P1, PLACEHOLDER, World

ROOT = "data/t"
A, B, OTHER = "aaaaaaaa", "bbbbbbbb", "ffffffff"
HURRY = Timings(first_retry_seconds=0.001, longest_retry_seconds=0.01)
AT_ONCE = replace(UNBOUNDED, max_buffer_bytes=8)  # each portion is converted as it comes


class EventStore(JournalStore):
    """Writes down what was done to it: the state of each log that is written, reads, uploads."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.events: list[str] = []

    def read(self, key: str) -> Content | None:
        found = super().read(key)
        self.events.append("read")
        return found

    def write(self, key: str, body: bytes, *, replaces: str | None) -> str:
        etag = super().write(key, body, replaces=replaces)
        self.events.append(LOG_FORM.parse(body).state if is_log(key) else "claim")
        return etag

    def upload(self, path: Path, key: str) -> StoredObject:
        stored = super().upload(path, key)
        self.events.append("upload")
        return stored


class Line(World):
    """A world whose member has an assignment ``A`` of two partitions, and writes what it takes.

    ``virtual`` partition columns have no folders; ``recreated``: the topic is another one by now; the writer can write
    once ``writer_up`` is done.
    """

    store: EventStore
    new_store = EventStore

    def __init__(
        self,
        tmp_path: Path,
        *,
        choice: OnBadRecord = "fail",
        virtual: Sequence[str] = (),
        recreated: Callable[[Sequence[TopicPartition]], ConnectorError | None] = lambda _: None,
        writer_up: Future[None] | None = None,
        limits: BatchLimits = AT_ONCE,
        free_bytes: Callable[[Path], int] = lambda _: 2**40,
        timings: Timings = HURRY,
    ) -> None:
        super().__init__(tmp_path, timings)
        self.scratch = tmp_path / "scratch"
        self.scratch.mkdir()
        self.writer = ArrowWriter()
        if writer_up is not None:
            self.writer.up = writer_up
        self.catalog = MemoryCatalog(refuse=self._register)
        table = replace(spec("p"), order=("p", *virtual))
        topic_ids: Any = SimpleNamespace(recreated=recreated)
        self.member = self._member(
            stager(table, choice, table_root=ROOT, read_message=row_of),
            Group("group", self.kafka, topic_ids, KafkaWatch()),
            self.catalog,
            table,
            self.writer,
            limits,
            scratch=self.scratch,
            workers=2,
            free_bytes=free_bytes,
            threads=Threads(),
        )
        self.flow = self.member.flow
        self.assignment = self.assign(A, P0, P1)
        self.store.events.clear()
        self.member.pipeline.start()

    def _register(self) -> None:
        self.store.events.append("register")

    # --- the consumer -----------------------------------------------------------------------------------------------

    def assign(self, token: str, *tps: TopicPartition) -> Assignment:
        """An assignment whose partitions nobody has had before."""
        return Assignment(tps, self.begun(token, tps), self.member.pipeline.gathering.submit)

    def take(self, *pieces: Piece, size: int = 100, of: Assignment | None = None) -> None:
        (of or self.assignment).take(pieces, size)

    def batch(self, *pieces: Piece, size: int = 100, of: Assignment | None = None, reason: str = "test") -> None:
        self.take(*pieces, size=size, of=of)
        (of or self.assignment).end_batch(reason)

    def batches(self, *numbers: int) -> None:
        """Submit batches of one row each, whose value and offset is the number."""
        for number in numbers:
            self.batch(one(number))

    # --- waits ------------------------------------------------------------------------------------------------------

    def delivered(self, of: Assignment | None = None) -> bool:
        """Wait until all that was taken is in the lake, or the pipeline has failed; returns whether it is."""
        assignment = of or self.assignment

        def has_ended() -> bool:
            return self.flow.wait_delivered(assignment, 0.05) or self.flow.failure is not None

        waiting.wait_until(has_ended, "all that was taken is in the lake")
        return assignment.is_delivered

    def wait_staged(self) -> None:
        waiting.wait_until(lambda: self.flow.buffer.held_bytes == 0, "all rows are staged, or dropped")

    def wait_empty(self) -> None:
        """Wait until each batch is in the lake, or dropped."""

        def is_empty() -> bool:
            assert self.flow.failure is None
            return self.flow.buffer.held_bytes == self.flow.buffer.under_way == 0

        waiting.wait_until(is_empty, "no batch is under way")
        assert list(self.scratch.iterdir()) == []

    def wait_written(self) -> None:
        waiting.wait_until(lambda: not self.flow.written.is_empty, "the next batch waits for its delivery")

    def failure(self) -> ConnectorError:
        waiting.wait_until(lambda: self.flow.failure is not None, "the pipeline fails")
        assert self.flow.failure is not None
        return self.flow.failure

    def wait_for_obstacle(self) -> None:
        waiting.wait_until(lambda: self.flow.obstacle is not None, "something is away")

    # --- the lake ---------------------------------------------------------------------------------------------------

    def rows(self) -> list[dict[str, Any]]:
        return [
            values
            for path in sorted(self.lake.rglob("*.parquet"))
            for values in pq.ParquetFile(path).read().to_pylist()
        ]

    def values(self) -> list[Any]:
        return sorted(values["v"] for values in self.rows())

    def keys_of(self, token: str) -> set[str]:
        return {
            str(path.relative_to(self.lake))
            for path in self.lake.rglob("data_*.parquet")
            if f"_{token}-" in path.name and path.read_bytes() != PLACEHOLDER
        }

    @property
    def in_catalog(self) -> set[str]:
        return set(self.catalog.keys)

    # --- the log ----------------------------------------------------------------------------------------------------

    def close_log(self) -> None:
        """Another member closes the log of ``A``, and has not looked at its batch yet."""
        document = self.journal.log(A)
        log = document.read()
        assert log is not None
        document.write(log.changed(closed=True, writer=OTHER))

    def versions(self, token: str = A) -> list[AssignmentLog]:
        return [LOG_FORM.parse(body) for body in self.store.bodies[self.log_key(token)]]

    def states(self, token: str = A) -> list[str]:
        return [log.state for log in self.versions(token)]

    @property
    def both_ends(self) -> list[int]:
        return [self.end(A, tp) for tp in (P0, P1)]

    @property
    def pending(self) -> AssignmentLog:
        return [log for log in self.versions() if log.state == "pending"][-1]


NewLine = Callable[..., Line]  # with these arguments


class Gate:
    def __init__(self) -> None:
        self._reached, self._open = threading.Event(), threading.Event()

    def __call__(self, *_: object) -> None:
        self._reached.set()
        waiting.wait_for(self._open, "the test opens the gate")

    def wait_reached(self) -> None:
        waiting.wait_for(self._reached, "a thread comes to the gate")

    def open(self) -> None:
        self._open.set()


def piece(*values: dict[str, Any], tp: TopicPartition = P0, first: int = 0) -> Piece:
    rows = [row(value, first + index) for index, value in enumerate(values)]
    return Piece(tp, first + len(rows) - 1, rows=rows)


def one(value: float, *, tp: TopicPartition = P0, first: int | None = None) -> Piece:
    """One row, whose value is its offset too, if no other is given."""
    return piece({"p": "a", "v": value}, tp=tp, first=int(value) if first is None else first)


def bad(number: int) -> Piece:
    """It cannot be staged: its second row fits no folder."""
    return piece({"p": "a", "v": number}, {"p": "a" * 300, "v": number}, first=number)


def own_threads() -> set[str]:
    """Names of the pipeline's threads that run; a thread of the pool of uploads counts as ``upload``."""
    running = {thread.name.split("_")[0] for thread in threading.enumerate()}
    return running & {"stage", "write", "deliver", "upload"}
