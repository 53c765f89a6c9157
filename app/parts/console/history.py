"""Stores samples of the last half hour, and calculates the charts of the status page."""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise, takewhile
from statistics import linear_regression
from typing import ClassVar, Final, Literal

from app import formatting

_SAMPLES = 361  # half an hour with a sample every five seconds; the samples need about 30 kB
_SLOPE_SECONDS = 30.0
# Possible lengths of a chart in seconds, and the labels of the time axis in minutes ago. Longer labels need more room.
_WINDOWS: Final = {300.0: (1, 2, 3), 600.0: (2, 4, 6), 1_800.0: (10, 20)}
_INTERVALS = 4  # maximum number of intervals between lines of the grid
_MINUTE = 60


@dataclass(frozen=True, slots=True)
class Sample:
    """The state at one moment. ``at`` is in monotonic seconds. ``rows`` and ``size`` (bytes) count since the start.

    ``lag`` is the number of uncommitted messages. ``age`` is the age of the oldest uncommitted message in seconds. If
    Kafka's values are unknown, ``lag`` and ``age`` are ``None``. ``is_outage``: another system is unavailable.
    """

    at: float
    rows: int
    lag: int | None
    size: int = 0
    is_outage: bool = False
    age: float | None = None


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a chart: the time in seconds ago, and the value (``None`` if unknown)."""

    ago: float
    value: float | None


class History:
    """The samples of the last half hour. Only one thread may add samples. Any thread may read samples."""

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque(maxlen=_SAMPLES)

    def add(self, sample: Sample) -> None:
        self._samples.append(sample)

    def span(self, now: float) -> float:
        """Return the number of seconds since the first sample."""
        samples = self._samples.copy()
        return now - samples[0].at if samples else 0.0

    def rate(self, now: float, seconds: float) -> tuple[float, float]:
        """Return the written rows per second and bytes per second, averaged over at most the last ``seconds``."""
        recent = self._recent(now, seconds)
        return _rate(recent[0], recent[-1]) if recent else (0.0, 0.0)

    def lag_change(self, now: float, seconds: float) -> float | None:
        """Return the growth of the lag over the last ``seconds``, in messages per second; negative if the lag shrinks.

        The result is a least-squares slope, because each commit lowers the lag in one step. The result is ``None`` if
        fewer than ``_SLOPE_SECONDS`` have been sampled since an outage began or ended.
        """
        recent = self._recent(now, seconds)
        alike = takewhile(lambda sample: sample.is_outage == recent[-1].is_outage, reversed(recent))
        samples = [sample for sample in reversed([*alike]) if sample.lag is not None]
        if not samples or samples[-1].at - samples[0].at < _SLOPE_SECONDS:
            return None
        return linear_regression([sample.at for sample in samples], [sample.lag or 0 for sample in samples]).slope

    def rates(self, now: float, width: float) -> list[Point]:
        """Return the written rows per second. Each value is an average over at least ``width`` seconds."""
        return [Point(now - end.at, _rate(begin, end)[0]) for begin, end in pairwise(self._steps(width))]

    def series(self, now: float, width: float, field: Literal["lag", "age"]) -> list[Point]:
        """Return the values of a field, for samples that are at least ``width`` seconds apart."""
        return [Point(now - sample.at, getattr(sample, field)) for sample in self._steps(width)]

    def outages(self, now: float) -> list[tuple[float, float]]:
        """Return the begin and end of each outage of another system, in seconds ago."""
        groups = groupby(self._samples.copy(), key=lambda sample: sample.is_outage)
        parts = [[*part] for is_outage, part in groups if is_outage]
        return [(now - part[0].at, now - part[-1].at) for part in parts]

    def _steps(self, width: float) -> list[Sample]:
        """Return samples that are at least ``width`` seconds apart, from the oldest to the newest sample."""
        taken: list[Sample] = []
        for sample in reversed(self._samples.copy()):
            if not taken or taken[-1].at - sample.at >= width * 0.99:
                taken.append(sample)
        return taken[::-1]

    def _recent(self, now: float, seconds: float) -> list[Sample]:
        return [sample for sample in self._samples.copy() if now - sample.at <= seconds]


def _rate(begin: Sample, end: Sample) -> tuple[float, float]:
    seconds = end.at - begin.at
    return ((end.rows - begin.rows) / seconds, (end.size - begin.size) / seconds) if seconds > 0 else (0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Chart:
    """The coordinates of a chart in a box of ``WIDTH`` and ``HEIGHT``. The upper left corner is (0, 0).

    Attributes:
        values: The horizontal lines of the grid. Each has the coordinate y and a label.
        moments: The labels of the time axis. Each has the coordinate x, the label, and SVG's ``text-anchor``.
        lines: The parts of the curve, as points (x, y). An unknown value begins another part.
        outages: The outages of other systems. Each has the coordinate x and the width.
    """

    WIDTH: ClassVar = 400
    HEIGHT: ClassVar = 170
    LEFT: ClassVar = 40  # edges of the area for the curve
    RIGHT: ClassVar = 392
    TOP: ClassVar = 12
    BASE: ClassVar = 146

    values: list[tuple[float, str]]
    moments: list[tuple[float, str, str]]
    lines: list[list[tuple[float, float]]]
    outages: list[tuple[float, float]]


def window(span: float) -> float:
    """Return the shortest of ``_WINDOWS`` that can show ``span`` seconds. If ``span`` is longer, return the longest."""
    return next((each for each in _WINDOWS if each >= span), max(_WINDOWS))


def ticks(highest: float) -> list[float]:
    """Return round values at equal distances. The first value is 0. Only the last value reaches ``highest``."""
    if highest <= 0:
        return [0.0, 1.0]
    raw = highest / _INTERVALS
    magnitude = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * magnitude for factor in (1, 2, 5, 10) if factor * magnitude >= raw * (1 - 1e-9))
    return [index * step for index in range(math.ceil(highest / step - 1e-9) + 1)]


def lay_out(points: Sequence[Point], seconds: float, outages: Sequence[tuple[float, float]] = ()) -> Chart:
    """Return the chart of the last ``seconds``, one of ``_WINDOWS``. ``points`` must be in the order of time."""
    shown = [point for point in points if point.ago <= seconds]
    marks = ticks(max((point.value for point in shown if point.value is not None), default=0.0))

    def x(ago: float) -> float:
        return round(Chart.LEFT + (Chart.RIGHT - Chart.LEFT) * (1 - ago / seconds), 1)

    def y(value: float) -> float:
        return round(Chart.BASE - (Chart.BASE - Chart.TOP) * value / marks[-1], 1)

    between = [(x(minute * _MINUTE), f"{minute} min", "middle") for minute in _WINDOWS[seconds]]
    return Chart(
        values=[(y(mark), formatting.short(mark)) for mark in marks],
        moments=[(x(0.0), "now", "end"), *between, (x(seconds), f"{seconds / _MINUTE:.0f} min ago", "start")],
        lines=[
            [(x(point.ago), y(point.value or 0.0)) for point in part]
            for is_known, part in groupby(shown, key=lambda point: point.value is not None)
            if is_known
        ],
        outages=[
            (x(min(begin, seconds)), round(x(end) - x(min(begin, seconds)), 1))
            for begin, end in outages
            if end < seconds
        ],
    )
