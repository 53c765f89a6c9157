"""The state of the connector and of each table at one moment, for the status page and its sentences."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, get_args

from app import formatting
from app.model import TopicPartition
from app.monitoring.metrics import Counts, Position
from app.monitoring.status import Status
from app.parts.console.history import History

_SLOPE_SECONDS = 300.0
_FEW = 0.1  # maximum part of all partitions that counts as few
_LISTED = 10  # maximum number of topics in a sentence
_LATE_INTERVALS = 5
_LATE_AT_LEAST_SECONDS = 30.0
_HARDLY = 0.05  # messages per second; a smaller change of the lag is shown as no change
_LONGEST = 7 * 86_400.0  # the longest forecast in seconds

# Reasons why a partition is not read. The most serious reason is first. Empty: the partition is read.
Hindrance = Literal["suspended", "taken over", "being claimed", "paused", ""]
HINDRANCES: tuple[Hindrance, ...] = get_args(Hindrance)


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """A partition on the status page. ``position`` and ``age`` are ``None`` if unknown.

    ``age`` is the age of the oldest uncommitted record in seconds; 0 if all records are committed.
    """

    tp: TopicPartition
    hindrance: Hindrance
    position: Position | None
    age: float | None

    @property
    def rank(self) -> tuple[int, float, int, TopicPartition]:
        """The sort key. Partitions that are not read are first, then partitions with a high age, then a high lag."""
        lag = self.position.lag if self.position else None
        return HINDRANCES.index(self.hindrance), -(self.age or 0.0), -(lag or 0), self.tp


@dataclass(frozen=True)
class ShownStatus(Status):
    """The state of the connector at one moment, with its history.

    Attributes:
        history: The samples of the last half hour.
        monotonic: The present time in monotonic seconds. ``counts.at`` is the present time in Unix seconds.
    """

    history: History
    monotonic: float

    @cached_property
    def rows(self) -> list[PartitionRow]:
        """All assigned partitions, sorted by ``rank``."""
        positions, lane = self.counts.positions, self.live.consumption
        rows = []
        suspended = {tp for tp in lane.tps if tp.topic in lane.suspended}
        for tp in positions.keys() | lane.unclaimed | lane.fenced.keys() | suspended:
            position = positions.get(tp)
            age = position.freshness(self.counts.at, lane.oldest.get(tp)) if position else None
            rows.append(PartitionRow(tp, self._hindrance(tp), position, age))
        return sorted(rows, key=lambda row: row.rank)

    def _hindrance(self, tp: TopicPartition) -> Hindrance:
        if tp.topic in self.live.consumption.suspended:
            return "suspended"
        if tp in self.live.consumption.fenced:
            return "taken over"
        if tp in self.live.consumption.unclaimed:
            return "being claimed"
        return "paused" if self.live.state == "paused" else ""

    @cached_property
    def age(self) -> float | None:
        """The age of the oldest uncommitted record in seconds: 0 if all records are committed, ``None`` if unknown."""
        ages = [row.age for row in self.rows if row.hindrance != "suspended"]
        return max(age or 0.0 for age in ages) if ages and None not in ages else None

    @property
    def oldest(self) -> TopicPartition | None:
        """The partition of the oldest uncommitted record; ``None`` if all records are committed."""
        return next((row.tp for row in self.rows if self.age and row.age == self.age), None)

    @property
    def _fresh_seconds(self) -> float:
        """The age in seconds up to which an uncommitted record is normal, because the next commit is not due yet."""
        return 2 * self.settings.commit_interval + _LATE_AT_LEAST_SECONDS

    @property
    def is_up_to_date(self) -> bool:
        """Whether all uncommitted records are younger than about two commit intervals."""
        return self.counts.lag == 0 or (self.age is not None and self.age <= self._fresh_seconds)

    def _is_behind(self, row: PartitionRow) -> bool:
        return (row.age or 0.0) > self._fresh_seconds

    @property
    def is_late(self) -> bool:
        """Whether an uncommitted record is older than a few commit intervals."""
        return (self.age or 0.0) > _LATE_INTERVALS * self.settings.commit_interval + _LATE_AT_LEAST_SECONDS

    @property
    def outstanding(self) -> list[PartitionRow]:
        """The partitions that are not read or are late; empty if this is true of all partitions."""
        rows = [row for row in self.rows if row.hindrance or self._is_behind(row)]
        return rows if len(rows) < len(self.rows) else []

    @property
    def stragglers(self) -> list[TopicPartition]:
        """The late partitions; empty if more than a tenth of all partitions are late."""
        behind = [row.tp for row in self.rows if self._is_behind(row)]
        return behind if len(behind) <= len(self.rows) * _FEW else []

    @cached_property
    def shrinks_by(self) -> float | None:
        """The rate at which the lag shrinks, in messages per second; negative if the lag grows, ``None`` if unknown."""
        change = self.history.lag_change(self.monotonic, max(_SLOPE_SECONDS, 3 * self.settings.commit_interval))
        return change if change is None else -change if abs(change) >= _HARDLY else 0.0

    @property
    def catch_up_seconds(self) -> float | None:
        """The seconds until the table is up to date at the present rate; ``None`` if unknown or longer than a week."""
        if self.is_up_to_date:
            return 0.0
        if self.counts.lag is None or self.shrinks_by is None or self.shrinks_by <= 0:
            return None
        seconds = self.counts.lag / self.shrinks_by
        return seconds if seconds <= _LONGEST else None


def of_tables(whole: ShownStatus) -> list[ShownStatus]:
    """Return a status for each table if the process has several tables. These statuses have no history.

    Suspended tables are first, then tables that wait for another system, then tables with the oldest records.
    """
    of_topics: dict[str, list[PartitionRow]] = {topic: [] for topic in whole.live.consumption.suspended}
    for row in whole.rows if whole.settings.has_tables else ():
        of_topics.setdefault(row.tp.topic, []).append(row)
    tables = [_of_table(whole, topic, rows) for topic, rows in of_topics.items()]
    return sorted(tables, key=lambda table: (not table.live.consumption.suspended, not table.live.waits))


def _of_table(whole: ShownStatus, topic: str, rows: Sequence[PartitionRow]) -> ShownStatus:
    live, lane, counts = whole.live, whole.live.consumption, whole.counts
    name, tps = whole.table_of(topic), frozenset(row.tp for row in rows)
    lane = replace(
        lane,
        tps=tps,
        unclaimed=lane.unclaimed & tps,
        fenced={tp: lane.fenced[tp] for tp in tps if tp in lane.fenced},
        suspended={topic: lane.suspended[topic]} if topic in lane.suspended else {},
        left_out={},
        deleted=(),
        oldest={tp: lane.oldest[tp] for tp in tps if tp in lane.oldest},
    )
    waits, state = tuple(wait for wait in live.waits if wait.table in ("", name)), live.state
    if state in ("waiting", "consuming") and live.spark == "running":
        state = "waiting" if waits or lane.suspended or lane.unclaimed or lane.fenced else "consuming"
    live = replace(live, state=state, consumption=lane, skipped=0, waits=waits)
    positions = {row.tp: row.position for row in rows if row.position}
    counts = replace(counts.of_tables.get(name, Counts()), at=counts.at, positions=positions)
    # The results of COMPACT and KEEP describe all tables, so the status of one table omits these results.
    settings = whole.settings.model_copy(update={"input_topic": topic, "compact": None, "keep": None})
    location = replace(whole.location, root=f"{whole.location.root.rpartition('/')[0]}/{name}")
    return ShownStatus(settings, location, live, counts, History(), whole.monotonic)


def listed(tps: Iterable[TopicPartition]) -> str:
    """Return the partitions of each topic as ranges, for example ``sensors 0-23, 30``. Only the first topics appear."""
    by_topic: dict[str, list[int]] = {}
    for tp in sorted(tps):
        by_topic.setdefault(tp.topic, []).append(tp.partition)
    named = [f"{topic} {formatting.ranges(numbers)}" for topic, numbers in by_topic.items()]
    if more := named[_LISTED:]:
        named[_LISTED:] = [f"and {formatting.counted(len(more), 'more topic')}"]
    return "; ".join(named)
