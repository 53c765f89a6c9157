"""One process of the connector: all its parts are the real ones, but for Spark; its threads do one step at a time."""

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from queue import Queue
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import app.consumer.partitions
from app.catalog.registrar import Registrar
from app.consumer.framework.sink import RowSink
from app.consumer.partitions import Partitions
from app.consumer.plain.sink import MessageSink
from app.errors import ConnectorError
from app.journal.claims import Claims
from app.journal.generation import Generation
from app.journal.journal import FencedError, Journal
from app.journal.ownership import JournalOwnership
from app.journal.recovery import Recovery
from app.journal.rolled_back import Sweeper
from app.journal.takeover import Takeover
from app.kafka.watch import TopicIds
from app.model import TopicPartition
from app.monitoring.waits import Stopped
from app.pipeline.pipeline import Pipeline
from app.pipeline.stage import Stager
from app.pipeline.upload import Destination
from app.table.location import TableLocation
from app.timings import Timings
from tests.fakes.arrow_writer import ArrowWriter
from tests.fakes.clock import Clock
from tests.faults.kafka_model import TOPIC, Consumer, Group
from tests.faults.lanes import AtOnce, Lane, LaneLock, LanePool, LaneStop, pause
from tests.faults.memory_lake import GROUP, ROOT, URI, MemoryStore, WatchfulCatalog
from tests.support.batches import UNBOUNDED, properties

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


class SteppedPipeline(Pipeline):
    """The pipeline without its threads."""

    def __init__(self, clock: Clock, **arguments: Any) -> None:
        self._clock = clock
        super().__init__(**arguments)
        self._pool = AtOnce()  # type: ignore[assignment]
        self._stop = LaneStop()  # type: ignore[assignment]
        for handover in (self._staged, self._written):
            handover._queue = Queue()  # of any length: one portion may end two batches, and nobody takes the first

    def _run(self, step: Callable[[], None], fail: Callable[[ConnectorError], None]) -> None:
        """Its threads end at once."""

    @property
    def can_prepare(self) -> bool:
        return self.failure is None and not self._waiting_rows.empty() and self._written.is_empty

    def prepare(self) -> None:
        """Steps 1 and 2 of the next portion, and step 3 if it ends a batch."""
        self._stage_next()
        while not self._staged.is_empty:
            self._write_next()

    @property
    def can_deliver(self) -> bool:
        return self.failure is None and not self._written.is_empty

    def deliver(self) -> None:
        """Steps 4 to 7 of what is prepared by then."""
        super()._run(self._deliver_prepared, self.fail)

    def _deliver_prepared(self) -> None:
        if self._written.is_empty:
            raise Stopped
        self._deliver_next()

    def wait_delivered(self, number: int, seconds: float) -> bool:
        if seconds and self._delivered < number and self.failure is None:
            pause("the end of a batch")
            self._clock.advance(1.0)
        return self._delivered >= number

    def wait_for_change(self, seconds: float) -> None:
        pause("room in the buffer")
        self._clock.advance(1.0)


@dataclass(frozen=True)
class World:
    """What all processes have in common; each has a folder of its own in ``scratch``."""

    scratch: Path
    clock: Clock
    store: MemoryStore
    catalog: WatchfulCatalog
    group: Group


class Process:
    """A process without its consumer. When it is killed, its threads end where they are and nobody else notices.

    Args:
        name: of its threads.
        world: where it lives.
        kafka: its client.
        stager: steps 1 and 2 of its pipeline.
    """

    sink: MessageSink | RowSink

    def __init__(self, name: str, world: World, kafka: Consumer, stager: Stager) -> None:
        clock, store, group = world.clock, world.store, world.group
        scratch = world.scratch / name
        scratch.mkdir()
        self.group = group
        self.kafka = kafka
        self.timings = timings = Timings(clock=clock)
        self.partitions = Partitions(timings=timings)
        self._store = store
        self.ownership = JournalOwnership(self.partitions.is_current, self._fenced, fresh_seconds=10.0)
        catalog = world.catalog
        registrar = Registrar(catalog, TableLocation(URI, ROOT), properties("p"), TOPIC, catalog.table())
        registrar._lock = LaneLock()  # type: ignore[assignment]
        self.pipeline = SteppedPipeline(
            clock,
            writer=ArrowWriter(),
            stager=stager,
            limits=UNBOUNDED,
            destination=Destination(store, ROOT),
            registrar=registrar,
            scratch=scratch,
            workers=1,
            ownership=self.ownership,
            timings=timings,
        )
        offsets: Any = SimpleNamespace(of=group.position_of, topic_id=group.topic_id, cluster_id=lambda: "")
        recovery = Recovery(store, registrar, None)
        self.claims = Claims(
            takeover=Takeover(
                Journal(store, ROOT, GROUP),
                offsets=offsets,
                register=recovery.register,
                is_registered=recovery.is_registered,
                now=lambda: _EPOCH + clock.now,
            ),
            new_generation=lambda token: _generation(store, token, clock),
            ownership=self.ownership,
            offsets=offsets,
            is_current=self.partitions.is_current,
            first_offset=lambda _, kafka: kafka.low,
            topic_ids=TopicIds(group.topic_id),
            follow_offsets=group.follow_offsets,
            keeps_state=False,
            is_member=lambda: group.has(self.kafka),
            on_fenced=self._fenced,
            timings=timings,
        )
        self.background = LanePool(f"{name}: claims")
        self.claims._pool = self.background  # type: ignore[assignment]
        self.claims._stop = LaneStop()  # type: ignore[assignment]
        self._sweeper = Sweeper(self.ownership.sweep, 10.0)  # its own thread is not started
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
        """What is left to do after an error."""
        raise NotImplementedError

    # --- its state ----------------------------------------------------------------------------------------------------

    @property
    def token(self) -> str:
        """Of the generation in which it has its partitions."""
        assert self.partitions.token is not None
        return self.partitions.token

    @property
    def is_zombie(self) -> bool:
        """Whether it believes to have partitions that are somebody else's or nobody's."""
        return set(self.kafka.assigned) != set(self.group.of(self.kafka))

    @property
    def is_through(self) -> bool:
        """Whether all records of its partitions are consumed, and the journal says so."""
        return self.kafka.is_at_end and all(self._is_journaled(tp) for tp in self.kafka.assigned)

    @property
    def is_fenced(self) -> bool:
        """Whether it knows that it must not write any more."""
        return bool(self.partitions.fenced)

    @property
    def lanes(self) -> list[Lane]:
        """Those that have something to do."""
        return [lane for lane in (self.consuming, self.delivering, *self.background.lanes) if not lane.is_idle]

    def _fenced(self, token: str, error: FencedError) -> None:
        log = self._store.log_of(token)
        if log is not None and not log.closed:
            self._store.violations.append(f"{token} was fenced though its log is open: {error}")
        self.partitions.fence(token, error)

    def _is_journaled(self, tp: TopicPartition) -> bool:
        return self._end(tp) == len(self.group.records[tp]) - 1

    def _end(self, tp: TopicPartition) -> int:
        """Where the log ends."""
        progress = self._store.progress(tp)
        return -2 if progress is None else max(progress.end, progress.to or -1)

    # --- from outside -----------------------------------------------------------------------------------------------

    def assign(self, tps: list[TopicPartition]) -> None:
        self.consuming.begin(lambda: self._assigned(tps))

    def consume(self, count: int) -> None:
        """So many turns of the loop."""
        self.consuming.begin(lambda: self._turns(count))

    def checkpoint(self) -> None:
        """The interval between commits is over."""
        self.consuming.begin(self._checkpoint)

    def revoke(self) -> None:
        """Give all partitions away in good order."""
        self.consuming.begin(self._give_away)

    def _give_away(self) -> None:
        self._revoke()
        self.group.release(self.kafka)

    def lose(self) -> None:
        """Learn that the partitions are gone."""
        self.consuming.begin(self._lose)

    def stop(self) -> None:
        """End in good order."""
        self.consuming.begin(self._finish)

    def _finish(self) -> None:
        self._stop()
        self.group.release(self.kafka)
        self.has_ended = True

    def prepare(self) -> None:
        """Spark writes the next batch, if it can."""
        if self.pipeline.can_prepare:
            self.pipeline.prepare()
        self._deliver()

    def _deliver(self) -> None:
        if self.delivering.is_idle and self.pipeline.can_deliver:
            self.delivering.begin(self.pipeline.deliver)

    def sweep(self) -> None:
        """Delete the placeholders that are due."""
        self.background.submit(self._sweeper.sweep)

    def after_step(self) -> None:
        """Look at what a step has brought.

        Raises:
            Exception: something that the connector should not have raised.
        """
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
        patches.enter_context(patch.object(app.consumer.partitions, "new_token", lambda: next(tokens)))
        patches.enter_context(patch("quixstreams.internal_consumer.consumer.monotonic", clock))
        yield


def _generation(store: MemoryStore, token: str, clock: Clock) -> Generation:
    generation = Generation(
        Journal(store, ROOT, GROUP),
        token,
        fill=partial(_fill, store),
        clock=clock,
        now=lambda: _EPOCH + clock.now,
    )
    generation._lock = LaneLock()  # type: ignore[assignment]
    return generation


def _fill(store: MemoryStore, keys: Collection[str]) -> None:
    for key in keys:
        store.overwrite(key, b"")
