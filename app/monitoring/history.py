"""Keeps samples of the last half hour, for the charts of the status page."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile

# Half an hour at a sample every five seconds: some 30 kB.
_SAMPLES = 361
_SLOPE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample: monotonic seconds, messages not committed, if known, and rows and bytes in the lake since the start.

    ``is_outage``: another system is away.
    """

    at: float
    rows: int
    lag: int | None
    size: int = 0
    is_outage: bool = False


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a chart: seconds ago, and the value; ``None`` where it is unknown."""

    ago: float
    value: float | None


class History:
    """Keeps the samples of the last half hour. One thread adds; any may read."""

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque(maxlen=_SAMPLES)

    def add(self, sample: Sample) -> None:
        self._samples.append(sample)

    def span(self, now: float) -> float:
        """Seconds since the first sample."""
        samples = self._samples.copy()
        return now - samples[0].at if samples else 0.0

    def rate(self, now: float, seconds: float) -> float:
        """Rows a second that came into the lake, over the last ``seconds``, or since the first sample."""
        recent = self._recent(now, seconds)
        return _rate(recent[0], recent[-1]) if recent else 0.0

    def byte_rate(self, now: float, seconds: float) -> float:
        """Bytes a second that came into the lake, over the last ``seconds``, or since the first sample."""
        recent = self._recent(now, seconds)
        return (recent[-1].size - recent[0].size) / (recent[-1].at - recent[0].at) if len(recent) > 1 else 0.0

    def lag_change(self, now: float, seconds: float) -> float | None:
        """Messages a second by which the lag has grown over the last ``seconds``, negative where it has shrunk.

        The slope of the line nearest to all samples, because a commit takes away at once what has come since the last
        one. ``None`` with less than ``_SLOPE_SECONDS`` of samples since the last outage began or ended.
        """
        recent = self._recent(now, seconds)
        alike = takewhile(lambda sample: sample.is_outage == recent[-1].is_outage, reversed(recent))
        known = [sample for sample in reversed([*alike]) if sample.lag is not None]
        if not known or known[-1].at - known[0].at < _SLOPE_SECONDS:
            return None
        return _slope([(sample.at, sample.lag or 0) for sample in known])

    def rates(self, now: float, width: float) -> list[Point]:
        """Rows a second, each over ``width`` seconds or a little more: batches come in one by one."""
        steps = list(_steps(self._samples.copy(), width))
        return [Point(now - end.at, _rate(begin, end)) for begin, end in pairwise(steps)]

    def lags(self, now: float, width: float) -> list[Point]:
        """Messages that were not committed, ``width`` seconds or a little more apart."""
        return [Point(now - sample.at, sample.lag) for sample in _steps(self._samples.copy(), width)]

    def _recent(self, now: float, seconds: float) -> list[Sample]:
        return [sample for sample in self._samples.copy() if now - sample.at <= seconds]


def _rate(begin: Sample, end: Sample) -> float:
    seconds = end.at - begin.at
    return (end.rows - begin.rows) / seconds if seconds > 0 else 0.0


def _slope(points: Sequence[tuple[float, float]]) -> float:
    """Of the line with the least squares; the points differ in x."""
    mean_x = sum(x for x, _ in points) / len(points)
    return sum((x - mean_x) * y for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)


def _steps(samples: Sequence[Sample], width: float) -> Iterator[Sample]:
    """Pick samples from the newest back, so that the newest is always shown; return them in the order of time."""
    taken: list[Sample] = []
    for sample in reversed(samples):
        if not taken or taken[-1].at - sample.at >= width * 0.99:
            taken.append(sample)
    return reversed(taken)
