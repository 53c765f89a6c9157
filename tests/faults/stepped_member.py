"""One process of the connector: all its parts are the real ones, but for Spark; its threads do one step at a time."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import mkdtemp
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from app.catalog.registrar import Registrar
from app.delivery.assignment import Assignment
from app.delivery.batch_limits import BatchLimits
from app.delivery.claimer import Group as ConsumerGroup
from app.delivery.claimer import StartSettings
from app.delivery.members import Members
from app.delivery.runtime import Buffer, Runtime, Threads
from app.delivery.stage import Stager
from app.delivery.topic import Open
from app.errors import ConnectorError, FatalError
from app.journal.first_offsets import FirstOffsets
from app.journal.journal import Journal
from app.kafka.watch import KafkaWatch, TopicIds
from app.model import TopicPartition
from app.monitoring.metrics import Metrics
from app.table.existing_table import TableLocation
from app.timings import Timings
from tests.fakes.arrow_writer import ArrowWriter
from tests.fakes.clock import Clock
from tests.faults.kafka_model import EPOCH, Consumer, Group
from tests.faults.lanes import AtOnce, Lane, LaneCondition, LaneEvent, LaneLock, LanePool
from tests.faults.memory_lake import GROUP, URI, MemoryStore, WatchfulCatalog, root_of
from tests.faults.watched_tables import Tables, WatchedMember
from tests.support.batches import UNBOUNDED, spec

MAX_BUFFER_BYTES = 6_000
LARGEST_RECORD = 3_000  # with what it makes of a run's texts, where it is the first that is none
COMMIT_SECONDS = 5.0  # of members that commit while the next batches are under way
METADATA = ("__topic", "__partition", "__offset")
LIMITS = replace(UNBOUNDED, batch_size=3, max_buffer_bytes=MAX_BUFFER_BYTES, target_file_bytes=0)
# What a record becomes: the values of its rows, or no row at all.
KINDS: dict[str, list[Any]] = {
    "a": [{"p": "a", "v": 0}],
    "b": [{"p": "b", "v": 0}],
    "both": [{"p": "a", "v": 0}, {"p": "b", "v": 1}],
    "bad": ["not an object"],
    "filtered": [],
}


@dataclass(frozen=True)
class World:
    """What all processes have in common; each has a folder of its own in ``scratch``."""

    scratch: Path
    clock: Clock
    store: MemoryStore
    catalogs: dict[str, WatchfulCatalog]  # by topic, of those that new processes read
    group: Group
    new_token: Callable[[], str]  # tokens order what is done for several partitions: random ones could not be repeated
    broken: set[str] = field(default_factory=set)  # topics whose tables cannot be opened


class _Metrics(Metrics):
    tables: Tables

    def fenced(self) -> None:
        for table in self.tables.made:
            table.check_fences()


class Process:
    """A process without its consumer. When it is killed, its threads end where they are and nobody else notices.

    So many tables are there from its beginning; others are opened once their topics are assigned.
    """

    tables_at_start = 1

    def __init__(
        self, name: str, world: World, kafka: Consumer, new_stager: Callable[[str], Stager], limits: BatchLimits
    ) -> None:
        clock, group = world.clock, world.group
        scratch = world.scratch / name
        scratch.mkdir()
        self.group = group
        self.kafka = kafka
        self.timings = timings = Timings(clock=clock)
        self._store = world.store
        metrics = _Metrics(timings=timings)
        self.background = LanePool(f"{name}: claims")
        threads = Threads(
            new_pool=lambda name, _: self.background if name in ("claim", "close") else AtOnce(),
            new_lock=LaneLock,
            new_event=LaneEvent,
            new_condition=lambda: LaneCondition(clock),
            handed_over=0,  # one portion may end two batches, and nobody takes the first
        )
        offsets: Any = SimpleNamespace(
            of=group.position_of,
            topic_id=group.topic_id,
            cluster_id=lambda: "",
            ends=group.ends,
            beginnings=lambda _: {},
            since=group.since,
            begun=group.begun,
        )
        topics = [*world.catalogs]
        start = StartSettings(group.reset, group.follow_offsets)
        if len(topics) > 1:
            tables = {topic: topic for topic in topics if group.ends(topic)}
            first = FirstOffsets(
                Journal(world.store, "data", GROUP), kafka=offsets, reset=group.reset, now=lambda: EPOCH + clock.now
            )
            start = replace(start, first_topics=first.first_topics(tables, group.follow_offsets))
        its_group = ConsumerGroup(
            GROUP, offsets, TopicIds(group.topic_id), KafkaWatch(), lambda: group.has(self.kafka), settings=start
        )
        runtime = Runtime(
            scratch, metrics, timings, threads=threads, now=lambda: EPOCH + clock.now, new_token=world.new_token
        )
        buffer = Buffer(limits, threads, is_shared=len(topics) > 1)

        def new_member(topic: str) -> WatchedMember:
            root, catalog = root_of(topic), world.catalogs[topic]
            registrar = Registrar(
                catalog, TableLocation(URI, root), spec("p"), topic, catalog.table(), new_lock=LaneLock
            )
            its = replace(runtime, scratch=Path(mkdtemp(dir=scratch)), metrics=metrics.of_table(topic))
            parts = registrar, new_stager(root), buffer, ArrowWriter(), its_group, its
            return WatchedMember(name, world.store, *parts)

        self._tables = metrics.tables = Tables(world.store, self.background, new_member, world.broken)
        at_start = [topic for topic in topics if topic not in world.broken][: self.tables_at_start]
        opened = {topic: self._tables.make(topic) for topic in at_start}
        self.member = opened[topics[0]]
        if buffer.is_shared:
            states = {topic: Open(member, member.stop) for topic, member in opened.items()}
            self.members = Members(its_group, buffer, runtime, states, self._tables.open)
        else:
            self.members = Members.of_one(topics[0], self.member)
        self.consuming = Lane(f"{name}: consumer")
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
        """Of the assignment in which it has the partitions of the first topic."""
        assert self.member.assignment is not None
        return self.member.assignment.log.token

    @property
    def held_bytes(self) -> int:
        return self.members.buffer.held_bytes

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
        return [lane for lane in self._all_lanes if not lane.is_idle]

    @property
    def _all_lanes(self) -> tuple[Lane, ...]:
        return self.consuming, *(each.delivering for each in self._tables.made), *self.background.lanes

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
        self.consuming.begin(self._join_again)

    def _join_again(self) -> None:
        self._lose()
        self.group.release(self.kafka)  # what a member still has, of whose topics one was deleted

    def stop(self) -> None:
        self.consuming.begin(self._finish)

    def _finish(self) -> None:
        self._stop()
        self.group.release(self.kafka)
        self.has_ended = True

    def prepare(self) -> None:
        for table in self._tables.made:
            table.prepare()

    def sweep(self) -> None:
        for table in self.members.all:
            self.background.submit(table.sweep)

    def fail(self, topic: str) -> Assignment | None:
        """Let a table fail for good, if it is open; returns the assignment of another one that is sound."""
        if failed := self.members.of(topic):
            failed.flow.fail(FatalError("writing a batch", "it cannot be"))
        for other in self.members.all:
            its = other.assignment
            if other is not failed and its and not its.is_over and not its.unclaimed and not other.flow.failure:
                return its
        return None

    def after_step(self) -> None:
        """Look at what a step has brought; raise what the connector should not have raised."""
        for table in self._tables.made:
            table.begin_delivery()
        error, self.consuming.error = self.consuming.error, None
        if isinstance(error, ConnectorError):
            self.consuming.begin(self._fail)
            self.has_ended = True
        elif error is not None:
            raise error
        for lane in self._all_lanes:
            if lane.error is not None:
                raise lane.error
        self.background.end_idle()

    def kill(self) -> None:
        for lane in self._all_lanes:
            lane.kill()
        self.group.release(self.kafka)


@contextmanager
def time_stands_still(clock: Clock) -> Iterator[None]:
    """Let those parts that take no clock look at this one."""
    with patch("quixstreams.internal_consumer.consumer.monotonic", clock):
        yield
