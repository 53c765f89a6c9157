"""The connector at one moment, as the metrics, the status page and its sentences show it."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal, get_args

from app import formatting
from app.model import TopicPartition
from app.monitoring.history import History
from app.monitoring.metrics import Counts, Position
from app.monitoring.waits import Trouble

_SLOPE_SECONDS = 300.0
_FEW = 0.1  # of all partitions
_LISTED = 10  # topics in a sentence
_LATE_INTERVALS = 5
_LATE_AT_LEAST_SECONDS = 30.0
_HARDLY = 0.05  # messages a second; a lag that shrinks by less does not shrink
_LONGEST = 7 * 86_400.0  # seconds; no forecast beyond it

StateName = Literal["starting", "waiting", "consuming", "paused", "failing", "stopping"]
STATES: tuple[StateName, ...] = get_args(StateName)
SparkState = Literal["starting", "running", "gone"]

# Why a partition is not read, the worst first; empty if it is read.
Hindrance = Literal["set aside", "taken over", "being claimed", "paused", ""]
HINDRANCES: tuple[Hindrance, ...] = get_args(Hindrance)


@dataclass(frozen=True, slots=True)
class Aside:
    """A table that is set aside: why, since when, and when it is tried again (both in seconds since the epoch)."""

    trouble: Trouble
    since: float
    again_at: float
    tries: int


@dataclass(frozen=True, slots=True)
class Consumption:
    """How consuming goes: reads of single values without locks, for the consumer's thread goes on meanwhile.

    Attributes:
        assigned: how many partitions are assigned.
        tps: those of them that are known by name.
        unclaimed: those of them that wait for their claims.
        fenced: those of them that must not be written any more, with the reasons.
        aside: the tables that are set aside, by topic: their partitions are in ``tps``, and not in ``unclaimed``.
        left_out: topics that are there and not written, with the reasons.
        deleted: topics that Kafka does not have.
        oldest: of each partition with records that are not in the lake, when the first of them came into being, in
            seconds since the epoch.
        consumed: how many messages came.
        due_in: seconds until the next commit is due, negative where it is late; ``None`` before consuming begins.
        held_bytes: of all records in Python.
        is_full: whether the buffer has reached its bound.
        is_paused: whether consuming is paused.
        is_stopping: whether a stop was requested.
        is_held_up: whether the last flush failed, and its batches are not in the lake yet.
    """

    assigned: int = 0
    tps: Collection[TopicPartition] = ()
    unclaimed: frozenset[TopicPartition] = frozenset()
    fenced: Mapping[TopicPartition, str] = field(default_factory=dict)
    aside: Mapping[str, Aside] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    deleted: Collection[str] = ()
    oldest: Mapping[TopicPartition, float] = field(default_factory=dict)
    consumed: int = 0
    due_in: float | None = None
    held_bytes: int = 0
    is_full: bool = False
    is_paused: bool = False
    is_stopping: bool = False
    is_held_up: bool = False


@dataclass(frozen=True, slots=True)
class Probe:
    """The answer to a probe; ``detail`` gives the reason."""

    ok: bool
    detail: str


STARTING: Final = Probe(ok=False, detail="starting")


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of this connector: topic, group, table, versions, and commit interval.

    Until ``is_found`` is true, the table's address is that of the settings; the catalog may have another one.

    Attributes:
        commit_interval: in seconds.
        replica: the name of this replica, of its deployment where the platform gives one.
        target_file_mb: TARGET_FILE_MB, in MiB.
        compaction_seconds: between two times of COMPACT; ``None`` without it.
        keep: KEEP.
        settings: the effective ones as name and value, without secrets.
        has_tables: there are several, one for each topic; their addresses end with their names.
        table_of: the name of the table of a topic.
    """

    topic: str
    group: str
    table: str
    root: str
    versions: dict[str, str]
    commit_interval: float
    is_found: bool = False
    replica: str = ""
    dead_letter: str = ""
    target_file_mb: int = 16
    compaction_seconds: float | None = None
    keep: str | None = None
    has_catalog: bool = False
    settings: tuple[tuple[str, str], ...] = ()
    has_tables: bool = False
    table_of: Callable[[str], str] = str

    @property
    def name(self) -> str:
        """The table's."""
        return self.root.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Live:
    """The running parts.

    Attributes:
        ready: whether records are consumed and written, and why not.
        consumption: as the lane says.
        buffer_limit: in bytes.
        under_way: batches begun and not in the lake yet.
        skipped: bad records left out since the process began.
        waits: what is tried again, the longest wait first.
        failure: the error that ends the process.
    """

    state: StateName = "starting"
    ready: Probe = STARTING
    consumption: Consumption = field(default_factory=Consumption)
    buffer_limit: int = 0
    under_way: int = 0
    skipped: int = 0
    java_pid: int | None = None
    spark: SparkState = "starting"
    waits: tuple[Trouble, ...] = ()
    failure: Trouble | None = None


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """A partition on the page; ``position`` and ``age`` are ``None`` if unknown.

    ``age`` is that of the oldest uncommitted record in seconds, 0 if none waits.
    """

    tp: TopicPartition
    hindrance: Hindrance
    position: Position | None
    age: float | None

    @property
    def rank(self) -> tuple[int, float, int, TopicPartition]:
        """Sorts the worst first: those that are not read, then by age, then by lag."""
        lag = self.position.lag if self.position else None
        return HINDRANCES.index(self.hindrance), -(self.age or 0.0), -(lag or 0), self.tp


@dataclass(frozen=True)
class Status:
    """The connector at one moment.

    Attributes:
        history: that of the last half hour.
        monotonic: the moment, in monotonic seconds; ``counts.at`` has it in seconds since the epoch.
    """

    identity: Identity
    live: Live
    counts: Counts
    history: History
    monotonic: float

    @cached_property
    def rows(self) -> list[PartitionRow]:
        """All assigned partitions, the worst first."""
        positions, lane = self.counts.positions, self.live.consumption
        rows = []
        aside = {tp for tp in lane.tps if tp.topic in lane.aside}
        for tp in positions.keys() | lane.unclaimed | lane.fenced.keys() | aside:
            position = positions.get(tp)
            age = position.freshness(self.counts.at, lane.oldest.get(tp)) if position else None
            rows.append(PartitionRow(tp, self._hindrance(tp), position, age))
        return sorted(rows, key=lambda row: row.rank)

    def _hindrance(self, tp: TopicPartition) -> Hindrance:
        if tp.topic in self.live.consumption.aside:
            return "set aside"
        if tp in self.live.consumption.fenced:
            return "taken over"
        if tp in self.live.consumption.unclaimed:
            return "being claimed"
        return "paused" if self.live.state == "paused" else ""

    @cached_property
    def age(self) -> float | None:
        """The age of the oldest uncommitted record in seconds; 0 if none waits, ``None`` if it is unknown."""
        ages = [row.age for row in self.rows if row.hindrance != "set aside"]
        return max(age or 0.0 for age in ages) if ages and None not in ages else None

    @property
    def oldest(self) -> TopicPartition | None:
        """The partition of this record, if one waits."""
        return next((row.tp for row in self.rows if self.age and row.age == self.age), None)

    @property
    def compacted_at(self) -> float | None:
        """When the last compaction ended, but not before consuming began; ``None`` without COMPACT."""
        if self.identity.compaction_seconds is None:
            return None
        last = self.counts.maintenance
        return max(last.ended if last else 0.0, self.counts.consuming_since)

    @property
    def _fresh_seconds(self) -> float:
        """Records since the last commits are no backlog."""
        return 2 * self.identity.commit_interval + _LATE_AT_LEAST_SECONDS

    @property
    def is_up_to_date(self) -> bool:
        """Whether no record waits longer than a commit takes."""
        return self.counts.lag == 0 or (self.age is not None and self.age <= self._fresh_seconds)

    def _is_behind(self, row: PartitionRow) -> bool:
        return (row.age or 0.0) > self._fresh_seconds

    @property
    def is_late(self) -> bool:
        """Whether a record waits for more than a few commits."""
        return (self.age or 0.0) > _LATE_INTERVALS * self.identity.commit_interval + _LATE_AT_LEAST_SECONDS

    @property
    def outstanding(self) -> list[PartitionRow]:
        """The partitions that are not read or are behind, while others are well."""
        found = [row for row in self.rows if row.hindrance or self._is_behind(row)]
        return found if len(found) < len(self.rows) else []

    @property
    def stragglers(self) -> list[TopicPartition]:
        """The partitions that are behind, if the others are not: at most a tenth of all."""
        behind = [row.tp for row in self.rows if self._is_behind(row)]
        return behind if len(behind) <= len(self.rows) * _FEW else []

    @cached_property
    def shrinks_by(self) -> float | None:
        """Messages a second by which the lag shrinks, negative if it grows; ``None`` if unknown."""
        change = self.history.lag_change(self.monotonic, max(_SLOPE_SECONDS, 3 * self.identity.commit_interval))
        return change if change is None else -change if abs(change) >= _HARDLY else 0.0

    @property
    def catch_up_seconds(self) -> float | None:
        """Seconds until nothing waits, at the present rate; ``None`` if the lag does not shrink, or is unknown."""
        if self.is_up_to_date:
            return 0.0
        if self.counts.lag is None or self.shrinks_by is None or self.shrinks_by <= 0:
            return None
        seconds = self.counts.lag / self.shrinks_by
        return seconds if seconds <= _LONGEST else None


class Health:
    """Knows whether the consumer's loop turns; ``loop_seconds`` limits one turn with its flush."""

    def __init__(self, *, loop_seconds: float, clock: Callable[[], float]) -> None:
        self._loop_seconds = loop_seconds
        self._clock = clock
        self._last_turn: float | None = None
        self._spark_alive: Callable[[], bool] = lambda: True

    def started(self, spark_alive: Callable[[], bool]) -> None:
        """Expects turns of the loop from now on."""
        self._spark_alive = spark_alive
        self._last_turn = self._clock()

    def turn(self) -> None:
        self._last_turn = self._clock()

    def live(self) -> Probe:
        """Answers OK while the process starts; afterwards while the loop turns and the JVM lives."""
        if self._last_turn is None:
            return Probe(ok=True, detail="starting")
        still = self._clock() - self._last_turn
        if still > self._loop_seconds:
            return Probe(ok=False, detail=f"the consumer's loop has not turned for {still:.0f} s")
        if not self._spark_alive():
            return Probe(ok=False, detail="Spark's Java process is gone")
        return Probe(ok=True, detail="running")


def listed(tps: Iterable[TopicPartition]) -> str:
    """Formats partitions as ranges, by topic: ``sensors 0-23, 30``; of many topics it names some."""
    by_topic: dict[str, list[int]] = {}
    for tp in sorted(tps):
        by_topic.setdefault(tp.topic, []).append(tp.partition)
    named = [f"{topic} {formatting.ranges(numbers)}" for topic, numbers in by_topic.items()]
    if more := named[_LISTED:]:
        named[_LISTED:] = [f"and {formatting.counted(len(more), 'more topic')}"]
    return "; ".join(named)
