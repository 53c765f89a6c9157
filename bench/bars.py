"""What this connector has to reach, beside which sink, over how many messages."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.laps import Lap
from bench.sinks import CONNECTOR


@dataclass(frozen=True, slots=True)
class Bar:
    """Our ``figure``, an attribute of ``Run``, is to be at least so many times the other sink's.

    Attributes:
        messages: of the lap it is for; a run with other laps judges it by its longest one.
        less_is_better: the ratio is then the other's figure over ours.
    """

    other: str
    figure: str
    messages: int
    at_least: float
    less_is_better: bool = False


COLD, WARM, CPU = "cold_rate", "warm_rate", "warm_cpu_seconds"
FILES, MEGABYTES = "files", "megabytes"
FIGURES = {COLD: "msg/s cold", WARM: "msg/s warm", CPU: "processor time warm", FILES: "files", MEGABYTES: "MB"}
BARS = (
    Bar("dependency-1000", COLD, 2_000_000, 6.0),
    Bar("dependency-1000", WARM, 2_000_000, 6.0),
    Bar("dependency-50000", COLD, 2_000_000, 3.0),
    Bar("dependency-50000", WARM, 2_000_000, 3.0),
    Bar("streaming-50k", WARM, 2_000_000, 1.3),
    Bar("streaming-500k", WARM, 2_000_000, 1.3),
    Bar("iceberg-2", COLD, 3_000_000, 1.6),
    Bar("iceberg-2", WARM, 5_000_000, 1.6),
    Bar("iceberg-2", CPU, 5_000_000, 1.8, less_is_better=True),
    Bar("iceberg-2", FILES, 5_000_000, 1.0, less_is_better=True),
    Bar("iceberg-2", MEGABYTES, 5_000_000, 0.9, less_is_better=True),
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A bar, the messages it was judged over, and the medians; None where there are none."""

    bar: Bar
    messages: int
    ours: float | None
    theirs: float | None

    @property
    def ratio(self) -> float | None:
        if self.ours is None or self.theirs is None:
            return None
        return self.theirs / self.ours if self.bar.less_is_better else self.ours / self.theirs

    @property
    def reached(self) -> bool | None:
        """None when it was not measured, or over a topic of another length."""
        if self.ratio is None or self.messages != self.bar.messages:
            return None
        return self.ratio >= self.bar.at_least


def verdicts(laps: Sequence[Lap]) -> Iterator[Verdict]:
    """Judge every bar by the lap with its messages, or by the longest one that both sinks have run in."""
    for bar in BARS:
        lap = next((lap for lap in laps if lap.messages == bar.messages), None) or _longest(laps, bar.other)
        yield Verdict(bar, lap.messages, lap.middle(CONNECTOR, bar.figure), lap.middle(bar.other, bar.figure))


def _longest(laps: Sequence[Lap], sink: str) -> Lap:
    return max(laps, key=lambda lap: (sink in lap.runs, lap.messages))
