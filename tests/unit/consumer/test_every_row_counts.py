"""Sink and pipeline together under everything at once: outages, full buffers, pauses, rebalances, late flushes.

The consumer is played as quixstreams plays it: a checkpoint commits what a flush confirmed, back-pressure goes back to
the last commit, a revocation flushes on a thread of its own and is given up after a while.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from quixstreams.context import set_message_context
from quixstreams.models import MessageContext
from quixstreams.sinks import SinkBackpressureError

from app.bad_records.policy import BadRecords
from app.catalog.registrar import Registrar
from app.consumer.assignment import Assignments
from app.consumer.sink import LakeSink
from app.errors import ConnectorError, RetryableError
from app.model import TopicPartition
from app.pipeline.pipeline import Pipeline
from app.pipeline.upload import Destination
from app.table.location import TableLocation
from app.timings import Timings
from tests.fakes.arrow_writer import ArrowWriter
from tests.fakes.memory_catalog import MemoryCatalog
from tests.fakes.moody_store import MoodyStore
from tests.fakes.open_ownership import OpenOwnership
from tests.support.batches import NOON, UNBOUNDED, properties, spec, stager

ROOT = "data/t"
PARTITIONS = [TopicPartition("sensors", number) for number in range(3)]
ROWS = 80
HASTE = 200.0  # seconds of the sink's clock in one of ours


class World:
    """A topic, a consumer's loop, the sink, the pipeline and a lake."""

    def __init__(self, tmp_path: Path, seed: int) -> None:
        self.dice = random.Random(seed)  # noqa: S311
        (tmp_path / "lake").mkdir()
        (tmp_path / "scratch").mkdir()
        self.lake = tmp_path / "lake"
        self.store = MoodyStore(self.lake, self._refuse)
        self.catalog = MemoryCatalog(refuse=lambda: self._refuse("catalog"))
        timings = Timings(
            clock=lambda: time.monotonic() * HASTE,
            revoke_seconds=30.0,
            look_seconds=0.002,
            first_retry_seconds=0.001,
            longest_retry_seconds=0.005,
        )
        self.assignments = Assignments(timings=timings)
        self.pipeline = Pipeline(
            writer=ArrowWriter(),
            stager=stager(spec("p"), table_root=ROOT),
            limits=UNBOUNDED,
            destination=Destination(self.store, ROOT),
            registrar=Registrar(self.catalog, TableLocation(self.store.uri, ROOT), properties("p"), "sensors", None),
            scratch=tmp_path / "scratch",
            workers=3,
            ownership=OpenOwnership(self.assignments.is_current),
            timings=timings,
        )
        self.sink = LakeSink(
            pipeline=self.pipeline,
            assignments=self.assignments,
            limits=replace(
                UNBOUNDED,
                batch_size=self.dice.choice([3, 10, 40]),
                max_buffer_bytes=self.dice.choice([5_000, 1_000_000]),
                target_file_bytes=0,
            ),
            bad_records=BadRecords("fail", lambda _: None),
            timings=timings,
        )
        self.outage = False
        self.committed = dict.fromkeys(PARTITIONS, 0)
        self.position = dict(self.committed)
        self.first_in_checkpoint: dict[TopicPartition, int] = {}
        self.pauses = self.failed_revocations = 0
        self.sink.assign(PARTITIONS)

    def _refuse(self, what: str) -> ConnectorError | None:
        hiccup = self.outage or self.dice.random() < 0.05
        return RetryableError(f"reaching {what}", "503") if hiccup else None

    def turn(self) -> None:
        """One turn of the loop: a record, and what it leads to."""
        left = [tp for tp in PARTITIONS if self.position[tp] < ROWS]
        if left:
            self._consume(self.dice.choice(left))
        self.sink.turn()
        if self.sink.is_full:
            self.checkpoint()

    def _consume(self, tp: TopicPartition) -> None:
        offset = self.position[tp]
        for copy in range(1 + offset % 3):  # some records become several rows
            set_message_context(MessageContext(tp.topic, tp.partition, offset, 60))
            value = {"p": f"{offset % 2}", "row": f"{tp}/{offset}/{copy}"}
            self.sink.add(value, None, NOON, [], tp.topic, tp.partition, offset)
        self.first_in_checkpoint.setdefault(tp, offset)
        self.position[tp] = offset + 1

    def checkpoint(self) -> None:
        if not self.first_in_checkpoint:
            return
        try:
            self.sink.flush()
        except SinkBackpressureError:
            self.pauses += 1
            self.position.update(self.first_in_checkpoint)
        else:
            self.committed.update({tp: self.position[tp] for tp in self.first_in_checkpoint})
        self.first_in_checkpoint.clear()

    def rebalance(self) -> None:
        """All partitions are taken away and given back."""
        flushed: list[bool] = []

        def flush() -> None:
            try:
                self.sink.flush()
            except ConnectorError:
                return
            flushed.append(True)

        self.sink.revoking(active=True)
        if self.first_in_checkpoint:
            thread = threading.Thread(target=flush, daemon=True)
            thread.start()
            thread.join(self.dice.choice([0.0, 0.01, 10.0]))
            if flushed and not thread.is_alive():
                self.committed.update({tp: self.position[tp] for tp in self.first_in_checkpoint})
            else:
                self.failed_revocations += 1
        self.sink.revoking(active=False)
        self.sink.unassign(PARTITIONS)
        self.sink.assign(PARTITIONS)
        self.position = dict(self.committed)
        self.first_in_checkpoint.clear()

    def finish(self) -> None:
        """Everything works again, and the rest is consumed."""
        self.outage = False
        while any(committed < ROWS for committed in self.committed.values()):
            self.turn()
            if all(position == ROWS for position in self.position.values()):
                self.checkpoint()

    def rows(self) -> Counter[str]:
        """How often each row is in the files that the catalog knows."""
        files = (pq.ParquetFile(self.lake / key).read().column("row").to_pylist() for key in self.catalog.keys)
        return Counter(row for rows in files for row in rows)


@contextmanager
def running(tmp_path: Path, seed: int) -> Iterator[World]:
    world = World(tmp_path, seed)
    try:
        yield world
    finally:
        world.pipeline.stop()


def every_row() -> set[str]:
    return {f"{tp}/{offset}/{copy}" for tp in PARTITIONS for offset in range(ROWS) for copy in range(1 + offset % 3)}


@pytest.mark.parametrize("rebalances", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_no_row_is_lost_nor_doubled_while_the_partitions_stay(tmp_path: Path, seed: int, *, rebalances: bool) -> None:
    with running(tmp_path, seed) as world:
        for _ in range(400):
            world.turn()
            event = world.dice.random()
            if event < 0.02:
                world.outage = not world.outage
            elif event < 0.05:
                world.checkpoint()
            elif rebalances and event < 0.06:
                world.rebalance()
        world.finish()
        assert set(world.rows()) == every_row()
        assert rebalances or world.rows() == Counter(every_row())
