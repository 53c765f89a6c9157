"""Counts batches, commits and failures, but never each record. Thread-safe."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import astuple, dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any, get_args

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics

from app.model import DataFile, Maintenance, TopicPartition
from app.retries import OUTAGE_SECONDS, Operation, Waits
from app.timings import DEFAULT, Timings

# The steps of a batch in order; see ``app.delivery.pipeline``.
STEPS = ("convert", "stage", "spark", "intend", "upload", "register", "done")
# Upper bounds in seconds. A step usually lasts tens of milliseconds, and minutes for many large files.
_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
OPERATIONS: tuple[Operation, ...] = get_args(Operation)
# The end of a transaction uses an offset without a message. Therefore a lag of 1 may mean that no message waits.
_TRANSACTION_END = 1
_REMEMBERED = 10  # batches, files, and losses

disable_created_metrics()  # type: ignore[no-untyped-call] # they would add a second series for each counter


@dataclass(frozen=True, slots=True)
class DeliveredBatch:
    """A batch in the lake. ``seconds`` contains the duration of each step. ``at`` is in seconds since the epoch.

    ``dropped`` is the number of files that were not registered, because their partition was revoked. ``table`` is the
    table's name if there are several tables, otherwise empty.
    """

    number: int
    reason: str
    rows: int
    files: int
    size: int
    dead_letters: int
    rescued: int
    dropped: int
    seconds: Mapping[str, float]
    last_files: Sequence[DataFile] = ()
    at: float = 0.0
    table: str = ""


@dataclass(frozen=True, slots=True)
class Position:
    """The offsets of the consumer group in an assigned partition.

    Times are in seconds since the epoch. ``committed`` is the committed offset. ``committed_at`` is the time of the
    last commit, ``None`` before the first commit. ``end`` is the offset of the next message to be produced, ``None`` if
    unknown. ``waits_since`` is when uncommitted messages were first seen after the last commit, ``None`` if no message
    waits. ``begun_at`` is when consuming began. ``complete_at`` is when Kafka last reported that no message waits.
    """

    committed: int
    committed_at: float | None = None
    end: int | None = None
    waits_since: float | None = None
    begun_at: float = 0.0
    complete_at: float | None = None

    @property
    def lag(self) -> int | None:
        """Number of uncommitted messages; ``None`` if unknown."""
        return None if self.end is None else max(0, self.end - self.committed)

    def commits(self, offset: int, now: float) -> "Position":
        moved = replace(self, committed=offset, committed_at=now, waits_since=None).reaches(self.end, now)
        return replace(moved, complete_at=self.complete_at)  # ``end`` may be old

    def reaches(self, end: int | None, now: float) -> "Position":
        moved = replace(self, end=end)
        since = now if self.waits_since is None else self.waits_since
        if (moved.lag or 0) > _TRANSACTION_END:
            return replace(moved, waits_since=since)
        return replace(moved, waits_since=None, complete_at=now)

    def freshness(self, now: float, oldest: float | None) -> float | None:
        """Returns the age of the oldest uncommitted message in seconds; 0 if no message waits, ``None`` if unknown.

        ``oldest`` is the time of the oldest consumed and uncommitted message. If ``oldest`` is ``None``, the age counts
        from when the connector first saw a waiting message in Kafka. Times are seconds since the epoch.
        """
        since = self.waits_since if oldest is None else oldest
        if since is None:
            return None if self.end is None else 0.0
        return max(0.0, now - since)


@dataclass(frozen=True, slots=True)
class Totals:
    """The counts since the process began. ``size`` is the size of the Parquet files in bytes."""

    rows: int = 0
    files: int = 0
    size: int = 0
    batches: int = 0
    dead_letters: int = 0
    rescued: int = 0
    pauses: int = 0
    fenced: int = 0

    def __add__(self, more: "Totals") -> "Totals":
        return Totals(*map(sum, zip(astuple(self), astuple(more), strict=True)))


@dataclass(frozen=True, slots=True)
class Counts:
    """The counts at the time ``at``.

    Times are in seconds since the epoch. ``last_commit``: when offsets were last committed. ``last_answer``: when Kafka
    last returned a partition's end. ``consuming_since``: when consuming began or, until then, when the process began.
    ``losses`` lists lost records with times, the latest last. ``last_batches`` begins with the latest batch.
    ``replicas`` is the number of members that write this table, if known. ``programs`` are other programs that have had
    partitions since ``programs_since``. ``maintenance`` is the last maintenance if COMPACT or KEEP is set.
    ``of_tables`` contains the counts of each table by name, if there are several tables.
    """

    at: float = 0.0
    totals: Totals = Totals()
    consuming_since: float = 0.0
    last_commit: float | None = None
    last_answer: float | None = None
    positions: Mapping[TopicPartition, Position] = field(default_factory=dict)
    last_batches: tuple[DeliveredBatch, ...] = ()
    losses: tuple[tuple[float, str], ...] = ()
    replicas: int | None = None
    programs: Sequence[str] = ()
    programs_since: float = 0.0
    maintenance: Maintenance | None = None
    of_tables: Mapping[str, "Counts"] = field(default_factory=dict)

    @property
    def lasting_programs(self) -> Sequence[str]:
        """The other programs that have had partitions for longer than a rebalance."""
        return self.programs if self.at - self.programs_since >= OUTAGE_SECONDS else ()

    @property
    def last_files(self) -> list[DataFile]:
        return [file for batch in self.last_batches for file in reversed(batch.last_files)][:_REMEMBERED]

    def with_batch(self, batch: DeliveredBatch) -> "Counts":
        more = Totals(batch.rows, batch.files, batch.size, 1, batch.dead_letters, batch.rescued)
        last_batches = (batch, *self.last_batches)[:_REMEMBERED]
        return replace(self, totals=self.totals + more, last_batches=last_batches)

    @property
    def lag(self) -> int | None:
        """The total lag of all assigned partitions; ``None`` without partitions, or if a partition's lag is unknown."""
        lags = [position.lag for position in self.positions.values()]
        known_lags = [lag for lag in lags if lag is not None]
        return sum(known_lags) if lags and len(known_lags) == len(lags) else None


class Metrics:
    """Counts the connector's work. ``registry`` contains retries and step times. ``counts()`` returns other counts."""

    def __init__(self, clock: Callable[[], float] = time.time, timings: Timings = DEFAULT) -> None:
        self._clock = clock
        self.table = ""  # set if there are several tables
        self.waits = Waits(timings, self.failed_try)
        self.on_batch: list[Callable[[str, Any], object]] = []  # functions for ``announce``, with the table's name
        self._lock = threading.Lock()
        self._all = self  # contains the counts, also for the results of ``of_table``
        self._counts = Counts(consuming_since=clock())
        self.registry = CollectorRegistry()
        new = partial(Counter, registry=self.registry)
        self._retries = new("lake_sink_retries", "Failed tries that were repeated.", ["operation"])
        self._retries_of_tables = new("lake_sink_table_retries", "Repeated tries of a table.", ["table", "operation"])
        self._steps = Histogram(
            "lake_sink_step_seconds",
            "Seconds of each step of a batch, without waits for unavailable systems.",
            ["step"],
            registry=self.registry,
            buckets=_BUCKETS,
        )
        for operation in OPERATIONS:  # alerts need a series before the first failure
            self._retries.labels(operation)
        for step in STEPS:
            self._steps.labels(step)

    def of_table(self, table: str) -> "Metrics":
        """Returns the metrics for one of several tables. They add the table's name to waits and failed tries."""
        metrics = copy(self)
        metrics.table = table
        metrics.waits = self.waits.of_table(table, metrics.failed_try)
        return metrics

    def counts(self) -> Counts:
        """Returns an immutable snapshot of the counts."""
        return replace(self._all._counts, at=self._clock())

    def delivered(self, batch: DeliveredBatch) -> None:
        batch = replace(batch, at=self._clock(), last_files=batch.last_files[-_REMEMBERED:])
        with self._lock:
            of_tables = self._all._counts.of_tables
            if table := batch.table:
                of_tables = {**of_tables, table: of_tables.get(table, Counts()).with_batch(batch)}
            self._all._counts = replace(self._all._counts.with_batch(batch), of_tables=of_tables)
        for step, seconds in batch.seconds.items():
            self._steps.labels(step).observe(seconds)

    def announce(self, log: Any) -> None:
        """Reports the log of a batch that is in the lake, or of new claims (``done``). Any thread may call this."""
        for function in self.on_batch:
            function(self.table, log)

    def _add(self, more: Totals) -> None:
        with self._lock:
            self._all._counts = replace(self._all._counts, totals=self._all._counts.totals + more)

    def consuming(self) -> None:
        """Notes that consuming begins. From now on, commits are expected."""
        with self._lock:
            self._all._counts = replace(self._all._counts, consuming_since=self._clock())

    def failed_try(self, operation: Operation) -> None:
        self._retries.labels(operation).inc()
        if self.table:
            self._retries_of_tables.labels(self.table, operation).inc()

    def paused(self) -> None:
        """Counts a pause of consuming because the store or catalog is too slow."""
        self._add(Totals(pauses=1))

    def fenced(self) -> None:
        self._add(Totals(fenced=1))

    def lost(self, what: str) -> None:
        """Notes lost records, which are neither in Kafka nor in the table."""
        with self._lock:
            losses = (*self._all._counts.losses, (self._clock(), what))[-_REMEMBERED:]
            self._all._counts = replace(self._all._counts, losses=losses)

    def members(self, replicas: int, programs: Sequence[str] = ()) -> None:
        """Notes the number of members that write this table, and other programs that have partitions."""
        with self._lock:
            counts = self._all._counts
            since = counts.programs_since if counts.programs else self._clock()
            latest = replicas or counts.replicas
            self._all._counts = replace(counts, replicas=latest, programs=programs, programs_since=since)

    def maintained(self, last: Maintenance, of_tables: Mapping[str, Maintenance] = MappingProxyType({})) -> None:
        """Notes the last maintenance by any member. ``of_tables`` contains the last maintenance of each table."""
        with self._lock:
            former = self._all._counts.of_tables
            new = {name: replace(former.get(name, Counts()), maintenance=each) for name, each in of_tables.items()}
            self._all._counts = replace(self._all._counts, maintenance=last, of_tables={**former, **new})

    # --- positions --------------------------------------------------------------------------------------------------

    def begins(self, tp: TopicPartition, offset: int) -> None:
        position = Position(offset, begun_at=self._clock())
        with self._lock:
            self._all._counts = replace(self._all._counts, positions={**self._all._counts.positions, tp: position})

    def committed(self, following: Mapping[TopicPartition, int]) -> None:
        """Notes the committed offset of each partition: the offset after its last row in the lake."""
        if not following:
            return
        now = self._clock()
        with self._lock:
            positions = self._all._counts.positions
            moved = {tp: positions[tp].commits(offset, now) for tp, offset in following.items() if tp in positions}
            self._all._counts = replace(self._all._counts, positions={**positions, **moved}, last_commit=now)

    def reaches(self, ends: Mapping[TopicPartition, int]) -> None:
        now = self._clock()
        with self._lock:
            positions = self._all._counts.positions
            moved = {tp: positions[tp].reaches(end, now) for tp, end in ends.items() if tp in positions}
            last_answer = now if moved else self._all._counts.last_answer
            self._all._counts = replace(self._all._counts, positions={**positions, **moved}, last_answer=last_answer)

    def ended(self, tps: Iterable[TopicPartition]) -> None:
        ended = set(tps)
        with self._lock:
            positions = {tp: position for tp, position in self._all._counts.positions.items() if tp not in ended}
            self._all._counts = replace(self._all._counts, positions=positions)
