"""All sinks in turn over one topic, as often as there are rounds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from bench.messages import Workload
from bench.run import Run, measure
from bench.sinks.base import Sink
from bench.stage import Stage
from bench.totals import WrongRowsError
from dev.machine import ServiceError, announce


@dataclass(frozen=True, slots=True)
class Lap:
    """What was measured over one topic.

    Attributes:
        message_bytes, avro_bytes: a message on average, as JSON and as Avro; None if no sink has read it as Avro.
        runs: of each sink by its name, one per round.
    """

    messages: int
    message_bytes: float
    partitions: int
    runs: Mapping[str, Sequence[Run]]
    avro_bytes: float | None = None

    def middle(self, sink: str, figure: str) -> float | None:
        """The median of an attribute of ``Run``; None without runs, or when one of them has no such figure."""
        values = self.values(sink, figure)
        return median(values) if values else None

    def values(self, sink: str, figure: str) -> list[float]:
        """The attribute of ``Run`` in each round; none at all when one of them has no such figure."""
        found = [getattr(run, figure) for run in self.runs.get(sink, ())]
        return [] if None in found else found


@dataclass(slots=True)
class Field:
    """The sinks that take part, and why the others do not.

    Attributes:
        sinks: by name, in their order.
        not_run: the reason by name.
        facts: what is worth telling of them.
    """

    sinks: dict[str, Sink]
    not_run: dict[str, str] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)

    def prepare(self) -> None:
        """Fetch what the sinks need; a peer that cannot be had is out.

        Raises:
            ServiceError: ours cannot be had.
        """
        for sink in list(self.sinks.values()):
            try:
                self.facts.update(sink.prepare())
            except ServiceError as error:
                self._drop(sink, error)

    def run(self, stage: Stage, workload: Workload, names: Sequence[str], rounds: int) -> Lap:
        """Run the sinks of these names in turn; a peer that fails is out from then on.

        Raises:
            ServiceError, WrongRowsError: ours failed.
        """
        in_avro = replace(workload, avro=True)
        taking_part = [self.sinks[name] for name in names if name in self.sinks]
        topics = {avro: stage.topic(in_avro if avro else workload) for avro in {sink.avro for sink in taking_part}}
        runs: dict[str, list[Run]] = {}
        for number in range(1, rounds + 1):
            for sink in [sink for sink in taking_part if sink.name in self.sinks]:
                try:
                    run = measure(sink, stage, topics[sink.avro])
                except (ServiceError, WrongRowsError) as error:
                    self._drop(sink, error)
                    continue
                runs.setdefault(sink.name, []).append(run)
                _tell(f"round {number} of {rounds}, {workload.messages:,} messages, {sink.title}", run)
        kept = {name: found for name, found in runs.items() if name in self.sinks}
        avro_bytes = in_avro.message_bytes() if True in topics else None
        return Lap(workload.messages, workload.message_bytes(), workload.partitions, kept, avro_bytes)

    def _drop(self, sink: Sink, error: Exception) -> None:
        if sink.is_ours:
            raise error
        announce(f"{sink.title} is out: {error}")
        self.not_run[sink.name] = str(error)
        del self.sinks[sink.name]


def _tell(what: str, run: Run) -> None:
    warm = f"{run.warm_rate:,.0f} msg/s warm" if run.warm_rate else "too few batches for a warm rate"
    announce(f"{what}: every row there; {run.cold_seconds:.1f} s, {run.cold_rate:,.0f} msg/s cold, {warm}")
