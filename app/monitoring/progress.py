"""Computes the connector's progress: the age of waiting records, the time to catch up, the worst partitions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from app import formatting
from app.model import TopicPartition
from app.monitoring.history import History
from app.monitoring.metrics import Counts, DeliveredBatch, Live, Position

_SLOPE_SECONDS = 300.0
_FEW = 0.1  # of all partitions
_HARDLY = 0.05  # messages a second; a lag that shrinks by less does not shrink
_LONGEST = 7 * 86_400.0  # seconds; no forecast beyond it

# Why a partition is not read, the worst first; empty if it is read.
Hindrance = Literal["taken over", "being claimed", "paused", ""]
_WORST: Sequence[Hindrance] = ("taken over", "being claimed", "paused", "")

# The steps of a batch in operators' words; metrics and log have names of their own.
STEP_NAMES = {
    "convert": "convert",
    "stage": "stage",
    "spark": "write",
    "intend": "prepare",
    "upload": "upload",
    "register": "register",
    "done": "commit",
}


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """A partition on the page; ``position`` and ``age`` are ``None`` if unknown.

    ``age`` is that of the oldest uncommitted record in seconds, 0 if none waits.
    """

    tp: TopicPartition
    hindrance: Hindrance
    position: Position | None
    age: float | None


def listed(tps: Iterable[TopicPartition]) -> str:
    """Formats partitions as ranges, by topic: ``sensors 0-23, 30``."""
    by_topic: dict[str, list[int]] = {}
    for tp in sorted(tps):
        by_topic.setdefault(tp.topic, []).append(tp.partition)
    return "; ".join(f"{topic} {formatting.ranges(numbers)}" for topic, numbers in by_topic.items())


def worst_first(counts: Counts, live: Live, now: float) -> list[PartitionRow]:
    """Returns all assigned partitions: first those that are not read, then by age, then by lag."""
    rows = []
    for tp in counts.positions.keys() | live.unclaimed | live.fenced.keys():
        position = counts.positions.get(tp)
        age = position.freshness(now, live.oldest.get(tp)) if position else None
        rows.append(PartitionRow(tp, _hindrance(tp, live), position, age))
    return sorted(rows, key=_rank)


def _hindrance(tp: TopicPartition, live: Live) -> Hindrance:
    if tp in live.fenced:
        return "taken over"
    if tp in live.unclaimed:
        return "being claimed"
    return "paused" if live.state == "paused" else ""


def _rank(row: PartitionRow) -> tuple[int, float, int, TopicPartition]:
    lag = row.position.lag if row.position else None
    return _WORST.index(row.hindrance), -(row.age or 0.0), -(lag or 0), row.tp


@dataclass(frozen=True, slots=True)
class Progress:
    """The table's lag behind the topic.

    Attributes:
        lag: uncommitted messages, ``None`` if unknown.
        age: of the oldest uncommitted record in seconds; 0 if none waits, ``None`` if unknown.
        oldest: the partition of this record, if one waits.
        shrinks_by: messages a second by which the lag shrinks, negative if it grows; ``None`` if unknown.
        is_up_to_date: no record waits longer than a commit takes.
        stragglers: the partitions that are behind, if the others are not: at most a tenth of all.
    """

    lag: int | None
    age: float | None
    oldest: TopicPartition | None
    shrinks_by: float | None
    is_up_to_date: bool
    stragglers: tuple[TopicPartition, ...] = ()

    @property
    def catch_up_seconds(self) -> float | None:
        """Seconds until nothing waits, at the present rate; ``None`` if the lag does not shrink, or is unknown."""
        if self.is_up_to_date:
            return 0.0
        if self.lag is None or self.shrinks_by is None or self.shrinks_by <= 0:
            return None
        seconds = self.lag / self.shrinks_by
        return seconds if seconds <= _LONGEST else None


def progress(
    counts: Counts, rows: Sequence[PartitionRow], history: History, monotonic: float, commit_interval: float
) -> Progress:
    """Computes the progress from the present lag and that of the last minutes.

    Records since the last commits, within ``commit_interval`` seconds, are no backlog.
    """
    ages = {row.tp: row.age for row in rows if row.age is not None}
    oldest = max(ages, key=lambda tp: ages[tp], default=None)
    age = ages[oldest] if oldest and len(ages) == len(rows) else None
    change = history.lag_change(monotonic, max(_SLOPE_SECONDS, 3 * commit_interval))
    fresh = 2 * commit_interval + 30
    behind = tuple(tp for tp, age in ages.items() if age > fresh)
    return Progress(
        lag=counts.lag,
        age=age,
        oldest=oldest if age else None,
        shrinks_by=None if change is None else -change if abs(change) >= _HARDLY else 0.0,
        is_up_to_date=counts.lag == 0 or (age is not None and age <= fresh),
        stragglers=behind if len(behind) <= len(rows) * _FEW else (),
    )


def slowest_step(batches: Sequence[DeliveredBatch]) -> tuple[str, float] | None:
    """Returns the slowest step of the last batches by its name in ``STEP_NAMES``, and its share of the time."""
    seconds: dict[str, float] = {}
    for batch in batches:
        for step, taken in batch.seconds.items():
            name = STEP_NAMES.get(step, step)
            seconds[name] = seconds.get(name, 0.0) + taken
    total = sum(seconds.values())
    if not total:
        return None
    slowest = max(seconds, key=lambda name: seconds[name])
    return slowest, seconds[slowest] / total
