"""Plays connectors and a Prometheus that scrapes them, by a clock of their own; the metrics are those of the product.

A connector here does what the real one does as far as its metrics show it: it consumes, commits at each interval, and
may hang. What it counts goes through ``Metrics`` and ``Exposition``, so rules are tried on what is really exported.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from app.config.parsers import Schedule
from app.model import TopicPartition
from app.monitoring.metric_families import Exposition
from app.monitoring.metrics import DeliveredBatch, Metrics
from app.monitoring.status import Consumption, Live, StateName, Status, Suspended
from app.retries import Trouble
from app.table.existing_table import TableLocation
from tests.support.environment import load

MINUTE = 60
HOUR = 60 * MINUTE
Sample = tuple[str, Mapping[str, str], float]
_SETTINGS = load(input="sensors")


@dataclass
class Partition:
    """A partition of a topic: its end, and the committed offset of the group.

    ``age`` is added to each record's. ``is_stuck`` says that nothing of it is committed.
    """

    rate: float = 10.0  # messages a second
    age: float = 0.0
    end: float = 1_000.0
    committed: float = 1_000.0
    is_stuck: bool = False


@dataclass
class Replica:
    """One process. Attributes may be changed while it runs.

    ``most`` is how many messages it can take in a second; ``is_hung`` says that its loop does not turn, so that it
    consumes and commits nothing, though its other threads go on. ``is_cut_off`` says that Kafka does not answer it, and
    ``is_suspended`` that the table of another topic is suspended. ``programs`` are other ones in its consumer group,
    and ``left_out`` topics that are not written.
    """

    instance: str
    partitions: dict[int, Partition]
    group: str = "lake"
    table: str = "s3://lake/data/sensors"
    interval: float = 30.0
    compacting: float | None = None  # seconds between two compactions
    most: float = 1_000_000.0
    state: StateName = "consuming"
    claiming: int = 0
    is_hung: bool = False
    is_cut_off: bool = False
    is_suspended: bool = False
    programs: Sequence[str] = ()
    left_out: Sequence[str] = ()
    is_up: bool = True
    is_known: bool = True
    now: float = 0.0
    began: float = 0.0
    metrics: Metrics = field(init=False)
    _exposition: Exposition = field(init=False)
    _last: float = 0.0
    _assigned: set[int] = field(default_factory=set)
    _oldest: dict[TopicPartition, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.start(self.began)

    def start(self, now: float) -> None:
        self.now = self.began = self._last = now
        self.metrics = Metrics(lambda: self.now)
        self._exposition = Exposition(self.metrics.registry, self._status)
        self.is_up = True
        self._assigned = set()
        self._oldest = {}

    def begin_consuming(self) -> None:
        self.state = "consuming"
        self.metrics.consuming()

    def step(self, now: float) -> None:
        self.now = now
        if not self.is_up or self.is_cut_off:
            return
        if self.state != "starting":
            self._follow_assignment()
        self.metrics.reaches({_tp(number): int(each.end) for number, each in self.partitions.items()})
        if self.state != "consuming" or self.is_hung:
            return
        self._consume()
        if now - self._last >= self.interval:
            self._commit(now - self._last)
            self._consume()
            self._last = now

    def _follow_assignment(self) -> None:
        wanted = set(self.partitions) if not self.claiming else set()
        self.metrics.ended(_tp(number) for number in self._assigned - wanted)
        for number in wanted - self._assigned:
            self.metrics.begins(_tp(number), int(self.partitions[number].committed))
        self._assigned = wanted

    def _consume(self) -> None:
        for number, each in self.partitions.items():
            waiting = each.end - each.committed
            if waiting > 1 and _tp(number) not in self._oldest:  # one alone is the end of a transaction
                self._oldest[_tp(number)] = self.now - each.age - (waiting / each.rate if each.rate else 0.0)

    def _commit(self, seconds: float) -> None:
        for number, each in self.partitions.items():
            if each.end - each.committed > 1 and not each.is_stuck:
                each.committed = min(each.end, each.committed + self.most * seconds)
                self.metrics.committed({_tp(number): int(each.committed)})
                self._oldest.pop(_tp(number), None)

    def count_bad_records(self, *, dead_letters: int = 0, rescued: int = 0) -> None:
        self.metrics.delivered(DeliveredBatch(1, "checkpoint", 10, 1, 10, dead_letters, rescued, 0, {}))

    def scrape(self) -> Iterable[Sample]:
        """What it exports, and when its process began: that of the tests is another one."""
        for family in self._exposition.collect():
            for sample in family.samples:
                yield sample.name, sample.labels, sample.value
        yield "process_start_time_seconds", {}, self.began

    def _status(self) -> Status:
        compact = Schedule("", timedelta(seconds=self.compacting)) if self.compacting else None
        settings = _SETTINGS.model_copy(
            update={"consumer_group": self.group, "commit_interval": self.interval, "compact": compact}
        )
        found = None if self.state == "starting" else TableLocation(*self.table.rsplit("/", 1))
        unclaimed = frozenset(_tp(number) for number in range(self.claiming))
        denied = Suspended(Trouble("store", "opening the table", "denied"), 0.0, 0.0, 1)
        suspended = {"orders": denied} if self.is_suspended else {}
        left_out = dict.fromkeys(self.left_out, "TABLE_LIMIT")
        consumption = Consumption(oldest=self._oldest, unclaimed=unclaimed, suspended=suspended, left_out=left_out)
        live = Live(self.state, consumption=consumption, waits=self.metrics.waits.current())
        self.metrics.members(1, self.programs)
        return Status(settings, found, live, self.metrics.counts())


Event = Callable[[], None]


class World:
    """Replicas of any deployments in one job of Prometheus, and what happens to them when."""

    def __init__(self, *replicas: Replica, every: int = 15) -> None:
        self.replicas = replicas
        self.every = every
        self._events: dict[float, list[Event]] = defaultdict(list)

    def at(self, seconds: float, event: Event) -> None:
        self._events[seconds].append(event)

    def series(self, seconds: int, names: Iterable[str]) -> dict[str, str]:
        """All samples of these metrics until then, as ``promtool`` takes them: values by name and labels."""
        wanted = {*names, "up"}
        scrapes = []
        for now in range(0, seconds + 1, self.every):
            for event in self._events.pop(now, []):
                event()
            for partition in {id(each): each for one in self.replicas for each in one.partitions.values()}.values():
                partition.end += partition.rate * self.every
            for replica in self.replicas:
                replica.step(now)
            scrapes.append(dict(self._scraped(wanted)))
        assert not self._events, "an event is after the end"
        found = dict.fromkeys(key for scraped in scrapes for key in scraped)
        return {key: _notation([scraped.get(key) for scraped in scrapes]) for key in found}

    def _scraped(self, wanted: set[str]) -> Iterable[tuple[str, float]]:
        for replica in self.replicas:
            if not replica.is_known:
                continue
            samples = [("up", {}, float(replica.is_up)), *(replica.scrape() if replica.is_up else ())]
            for name, labels, value in samples:
                if name in wanted:
                    yield name + selector(job="connectors", instance=replica.instance, **labels), value


def selector(**labels: str) -> str:
    """Labels as Prometheus writes them."""
    return "{" + ",".join(f'{name}="{value}"' for name, value in sorted(labels.items())) + "}"


def _notation(values: list[float | None]) -> str:
    """The values one by one; as Prometheus does, a series that ends is marked as stale."""
    words = []
    before: float | None = None
    for value in values:
        words.append(f"{value:.10g}" if value is not None else "stale" if before is not None else "_")
        before = value
    return " ".join(words)


def _tp(number: int) -> TopicPartition:
    return TopicPartition("sensors", number)
