"""One process of the connector: all its parts are the real ones, but for Spark; its threads do one step at a time."""

from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from queue import Queue
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import app.journal.own_log
from app.catalog.registrar import Registrar
from app.delivery.assignment import Assignment
from app.delivery.claimer import Claimer, Membership
from app.delivery.deliver import Delivery
from app.delivery.flow import Flow
from app.delivery.gather import Gathering
from app.delivery.limits import BatchLimits
from app.delivery.pipeline import Pipeline
from app.delivery.stage import Stager
from app.errors import ConnectorError
from app.journal.beginning import Beginnings
from app.journal.journal import Journal
from app.journal.own_log import OwnLog
from app.journal.rolled_back import Sweeper
from app.journal.settle import Settlement, roll_forward
from app.journal.takeover import Takeover
from app.kafka.watch import TopicIds
from app.model import TopicPartition
from app.monitoring.metrics import Metrics
from app.monitoring.waits import Stopped
from app.table.existing import TableLocation
from app.timings import Timings
from tests.fakes.arrow_writer import ArrowWriter
from tests.fakes.clock import Clock
from tests.faults.kafka_model import TOPIC, Consumer, Group
from tests.faults.lanes import AtOnce, Lane, LaneLock, LanePool, LaneStop, pause
from tests.faults.memory_lake import GROUP, ROOT, URI, MemoryStore, WatchfulCatalog
from tests.support.batches import UNBOUNDED, spec

MAX_BUFFER_BYTES = 6_000
LARGEST_RECORD = 2_000  # as the sink counts it, with a wide margin
COMMIT_SECONDS = 5.0  # of members that commit while the next batches are under way
METADATA = ("__partition", "__offset")
LIMITS = replace(UNBOUNDED, batch_size=3, max_buffer_bytes=MAX_BUFFER_BYTES, target_file_bytes=0)
_EPOCH = 1_700_000_000.0
# What a record becomes: the values of its rows, or no row at all.
KINDS: dict[str, list[Any]] = {
    "a": [{"p": "a", "v": 0}],
    "b": [{"p": "b", "v": 0}],
    "both": [{"p": "a", "v": 0}, {"p": "b", "v": 1}],
    "bad": ["not an object"],
    "filtered": [],
}


class SteppedFlow(Flow):
    """Its waits let the test choose who runs."""

    def __init__(self, timings: Timings, clock: Clock) -> None:
        super().__init__(Metrics(timings=timings))
        self._clock = clock
        self.stop = LaneStop()  # type: ignore[assignment]
        for handover in (self.staged, self.written):
            handover._queue = Queue()  # of any length: one portion may end two batches, and nobody takes the first

    def wait(self, seconds: float) -> None:
        pause("a change")
        self._clock.advance(1.0)


class SteppedPipeline(Pipeline):
    """The pipeline without its threads."""

    def __init__(self, flow: SteppedFlow, gathering: Gathering, delivery: Delivery) -> None:
        super().__init__(flow, gathering, ArrowWriter(), delivery)
        delivery._pool = AtOnce()  # type: ignore[assignment]

    def prepare(self) -> None:
        """Steps 1 to 3 of what was taken."""
        is_left = True
        while is_left and self.failure is None and self._flow.written.is_empty:
            is_left = not self._gathering._submitted.empty()
            self._gathering.step(0.0)
            while not self._flow.staged.is_empty:
                self.write_next()

    @property
    def can_deliver(self) -> bool:
        return self.failure is None and not self._flow.written.is_empty

    def deliver(self) -> None:
        """Steps 4 to 7 of what is prepared by then."""
        try:
            while not self._flow.written.is_empty:
                self._delivery.step()
        except Stopped:
            pass
        except ConnectorError as error:
            self.fail(error)

    def wait_delivered(self, assignment: Assignment, seconds: float) -> bool:
        if seconds and not (assignment.is_delivered or assignment.is_over or self.failure):
            self.wait_for_change(seconds)
        return assignment.is_delivered


@dataclass(frozen=True)
class World:
    """What all processes have in common; each has a folder of its own in ``scratch``."""

    scratch: Path
    clock: Clock
    store: MemoryStore
    catalog: WatchfulCatalog
    group: Group


class Process:
    """A process without its consumer. When it is killed, its threads end where they are and nobody else notices."""

    def __init__(self, name: str, world: World, kafka: Consumer, stager: Stager, limits: BatchLimits) -> None:
        clock, store, group = world.clock, world.store, world.group
        scratch = world.scratch / name
        scratch.mkdir()
        self.group = group
        self.kafka = kafka
        self.timings = timings = Timings(clock=clock)
        self._store = store
        catalog = world.catalog
        registrar = Registrar(catalog, TableLocation(URI, ROOT), spec("p"), TOPIC, catalog.table())
        registrar._lock = LaneLock()  # type: ignore[assignment]
        flow = SteppedFlow(timings, clock)
        self.gathering = Gathering(flow, stager, limits, scratch)
        self.pipeline = SteppedPipeline(flow, self.gathering, Delivery(flow, store, registrar, workers=1))
        offsets: Any = SimpleNamespace(of=group.position_of, topic_id=group.topic_id, cluster_id=lambda: "")
        journal, topic_ids = Journal(store, ROOT, GROUP), TopicIds(group.topic_id)
        unwatched: Any = SimpleNamespace(start=lambda: None, stop=lambda: None, raise_found=lambda: None)
        self.claimer = Claimer(
            Takeover(
                journal,
                Settlement(
                    store,
                    partial(roll_forward, store, registrar, map),
                    registrar.has,
                    offsets,
                    map,
                    lambda: _EPOCH + clock.now,
                ),
                Beginnings(offsets, topic_ids, lambda _, kafka: kafka.low, group.follow_offsets),
            ),
            partial(self._new_log, journal, clock),
            Membership(topic_ids, lambda: None, lambda: group.has(self.kafka), unwatched),
            self.gathering.submit,
            flow.metrics,
            timings,
        )
        self.background = LanePool(f"{name}: claims")
        self.claimer._pool = self.background  # type: ignore[assignment]
        self.claimer._stop = LaneStop()  # type: ignore[assignment]
        self._sweeper = Sweeper(self.claimer.sweep, 10.0)  # its own thread is not started
        self.consuming = Lane(f"{name}: consumer")
        self.delivering = Lane(f"{name}: deliver")
        self.has_ended = False

    # --- by its kind of consumer, on the consumer's thread ------------------------------------------------------------

    def _assigned(self, tps: list[TopicPartition]) -> None:
        raise NotImplementedError

    def _turns(self, count: int) -> None:
        raise NotImplementedError

    def _checkpoint(self) -> None:
        raise NotImplementedError

    def _revoke(self) -> None:
        raise NotImplementedError

    def _lose(self) -> None:
        raise NotImplementedError

    def _stop(self) -> None:
        raise NotImplementedError

    def _fail(self) -> None:
        raise NotImplementedError

    # --- its state ----------------------------------------------------------------------------------------------------

    @property
    def token(self) -> str:
        """Of the generation in which it has its partitions."""
        assert self.claimer.current is not None
        return self.claimer.current.log.token

    @property
    def held_bytes(self) -> int:
        return self.pipeline.held_bytes

    @property
    def is_zombie(self) -> bool:
        """Whether it believes to have partitions that are somebody else's or nobody's."""
        return set(self.kafka.assigned) != set(self.group.of(self.kafka))

    @property
    def is_through(self) -> bool:
        """Whether all records of its partitions are consumed, and the journal says so."""
        return self.kafka.is_at_end and all(self._is_journaled(tp) for tp in self.kafka.assigned)

    @property
    def lanes(self) -> list[Lane]:
        return [lane for lane in (self.consuming, self.delivering, *self.background.lanes) if not lane.is_idle]

    def _new_log(self, journal: Journal, clock: Clock) -> OwnLog:
        own = OwnLog(
            journal,
            app.journal.own_log.new_token(),
            fill=self._fill,
            on_fenced=self._fenced,
            clock=clock,
            now=lambda: _EPOCH + clock.now,
        )
        own._lock = LaneLock()  # type: ignore[assignment]
        return own

    def _fill(self, keys: Collection[str]) -> None:
        for key in keys:
            self._store.overwrite(key, b"")

    def _fenced(self, own: OwnLog) -> None:
        log = self._store.log_of(own.token)
        if log is not None and not log.closed:
            self._store.violations.append(f"{own.token} was fenced though its log is open: {own.fence}")

    def _is_journaled(self, tp: TopicPartition) -> bool:
        return self._end(tp) == len(self.group.records[tp]) - 1

    def _end(self, tp: TopicPartition) -> int:
        progress = self._store.progress(tp)
        return -2 if progress is None else max(progress.end, -1 if progress.to is None else progress.to)

    # --- from outside -----------------------------------------------------------------------------------------------

    def assign(self, tps: list[TopicPartition]) -> None:
        self.consuming.begin(lambda: self._assigned(tps))

    def consume(self, count: int) -> None:
        self.consuming.begin(lambda: self._turns(count))

    def checkpoint(self) -> None:
        self.consuming.begin(self._checkpoint)

    def revoke(self) -> None:
        self.consuming.begin(self._give_away)

    def _give_away(self) -> None:
        self._revoke()
        self.group.release(self.kafka)

    def lose(self) -> None:
        self.consuming.begin(self._lose)

    def stop(self) -> None:
        self.consuming.begin(self._finish)

    def _finish(self) -> None:
        self._stop()
        self.group.release(self.kafka)
        self.has_ended = True

    def prepare(self) -> None:
        """Spark writes the next batch, if it can."""
        self.pipeline.prepare()
        self._deliver()

    def _deliver(self) -> None:
        if self.delivering.is_idle and self.pipeline.can_deliver:
            self.delivering.begin(self.pipeline.deliver)

    def sweep(self) -> None:
        self.background.submit(self._sweeper.sweep)

    def after_step(self) -> None:
        """Look at what a step has brought; raise what the connector should not have raised."""
        self._deliver()
        error, self.consuming.error = self.consuming.error, None
        if isinstance(error, ConnectorError):
            self.consuming.begin(self._fail)
            self.has_ended = True
        elif error is not None:
            raise error
        for lane in (self.delivering, *self.background.lanes):
            if lane.error is not None:
                raise lane.error
        self.background.end_idle()

    def kill(self) -> None:
        for lane in (self.consuming, self.delivering, *self.background.lanes):
            lane.kill()
        self.group.release(self.kafka)


@contextmanager
def time_stands_still(clock: Clock) -> Iterator[None]:
    """Let those parts that take no clock look at this one."""
    with ExitStack() as patches:
        # Tokens order what is done for several partitions: with random ones, no run could be repeated.
        tokens = (f"{number:024x}" for number in count())
        patches.enter_context(patch.object(app.journal.own_log, "new_token", lambda: next(tokens)))
        patches.enter_context(patch("quixstreams.internal_consumer.consumer.monotonic", clock))
        yield
