"""The connector at one moment, for the probes, the metrics and the status page."""

import platform
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Final, Literal, get_args

from app import __version__
from app.config.settings import Settings
from app.model import TopicPartition
from app.monitoring.metrics import Counts, Position
from app.retries import Trouble
from app.table.existing_table import TableLocation

StateName = Literal["starting", "waiting", "consuming", "paused", "failing", "stopping"]
STATES: tuple[StateName, ...] = get_args(StateName)
SparkState = Literal["starting", "running", "gone"]

VERSIONS: Final = {
    "version": __version__,
    "spark": version("pyspark"),
    "quixstreams": version("quixstreams"),
    "python": platform.python_version(),
}


@dataclass(frozen=True, slots=True)
class Suspended:
    """A suspended table. ``since`` is the start of the suspension, ``again_at`` its end (seconds since the epoch)."""

    trouble: Trouble
    since: float
    again_at: float
    tries: int


@dataclass(frozen=True, slots=True)
class Consumption:
    """The state of consuming. Values are read one by one without locks, because the consumer's thread must not wait.

    Attributes:
        assigned: Number of assigned partitions.
        tps: Assigned partitions whose names are known.
        unclaimed: Assigned partitions that wait for their claims.
        fenced: Assigned partitions that this member must not write any more, and the reason of each.
        suspended: Suspended tables by topic. The partitions of these tables are in ``tps``, and not in ``unclaimed``.
        left_out: Topics that exist and are not written, and the reason of each.
        deleted: Topics that Kafka does not have.
        oldest: Time of the first record that is not in the lake, by partition, in seconds since the epoch.
        consumed: Number of messages consumed so far.
        due_in: Seconds until the next commit is due, negative if it is late; ``None`` before consuming begins.
        held_bytes: Size of all records in Python's memory, in bytes.
        is_full: Whether the buffer has reached its limit.
        is_paused: Whether consuming is paused.
        is_stopping: Whether a stop was requested.
        is_held_up: Whether the last flush failed, and the batches of this flush are not in the lake yet.
    """

    assigned: int = 0
    tps: Collection[TopicPartition] = ()
    unclaimed: frozenset[TopicPartition] = frozenset()
    fenced: Mapping[TopicPartition, str] = field(default_factory=dict)
    suspended: Mapping[str, Suspended] = field(default_factory=dict)
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
    """The answer to a probe; ``detail`` is the reason."""

    ok: bool
    detail: str


STARTING: Final = Probe(ok=False, detail="starting")


@dataclass(frozen=True, slots=True)
class Live:
    """The state of the running connector.

    Attributes:
        ready: Whether records are consumed and written. If not, ``detail`` contains the reason.
        consumption: The lane's state.
        buffer_limit: Limit of the buffer in bytes.
        under_way: Number of batches that have begun and are not in the lake yet.
        skipped: Number of bad records skipped since the process began.
        waits: The present waits for other systems, the longest wait first.
        failure: The error that ends the process.
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
class Status:
    """The connector at one moment.

    Attributes:
        settings: For one of several tables, COMPACT and KEEP are unset, and ``input`` is the topic's name in Kafka.
        located: The table's location if known. The catalog's location may differ from the location in the settings.
    """

    settings: Settings
    located: TableLocation | None
    live: Live
    counts: Counts

    @property
    def location(self) -> TableLocation:
        return self.located or self.settings.location

    def table_of(self, topic: str) -> str:
        """Returns the name of a topic's table. ``topic`` is the topic's name in Kafka."""
        workspace = self.settings.workspace_id
        return self.settings.of_topic(topic.removeprefix(f"{workspace}-" if workspace else "")).table

    @property
    def complete_to(self) -> float | None:
        """The time up to which all records of this replica's partitions are in the lake; ``None`` if unknown."""
        lane = self.live.consumption
        return None if lane.unclaimed or lane.suspended else complete_to(self.counts.positions, lane.oldest)

    @property
    def compaction_seconds(self) -> float | None:
        """Seconds between two compactions; ``None`` if COMPACT is unset."""
        return self.settings.compact.period.total_seconds() if self.settings.compact else None

    @property
    def compacted_at(self) -> float | None:
        """When the last compaction ended or, if that is later, when consuming began; ``None`` if COMPACT is unset."""
        if self.settings.compact is None:
            return None
        last = self.counts.maintenance
        return max(last.ended if last else 0.0, self.counts.consuming_since)


def complete_to(positions: Mapping[TopicPartition, Position], oldest: Mapping[TopicPartition, float]) -> float | None:
    """Returns the time up to which all records of the partitions are in the lake; ``None`` if unknown."""
    times = [oldest.get(tp, position.complete_at) for tp, position in positions.items()]
    known_times = [each for each in times if each is not None]
    return min(known_times, default=None) if len(known_times) == len(times) else None


class Health:
    """Checks whether the consumer's loop turns. One turn and its flush may last ``loop_seconds``."""

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
        """Returns OK while the process starts. After the start, returns OK while the loop turns and the JVM runs."""
        if self._last_turn is None:
            return Probe(ok=True, detail="starting")
        seconds = self._clock() - self._last_turn
        if seconds > self._loop_seconds:
            return Probe(ok=False, detail=f"the consumer's loop has not turned for {seconds:.0f} s")
        if not self._spark_alive():
            return Probe(ok=False, detail="Spark's Java process has ended")
        return Probe(ok=True, detail="running")
