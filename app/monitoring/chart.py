"""Lays out a line chart over time; the status page's template draws it as SVG."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import ClassVar, Final

from app import formatting
from app.monitoring.history import Point

WINDOWS: Final = (300.0, 600.0, 1_800.0)  # seconds that a chart may show
_INTERVALS = 4  # between the lines of the grid, at most
_MINUTE = 60


@dataclass(frozen=True, slots=True)
class Chart:
    """Coordinates in a box of ``WIDTH`` by ``HEIGHT``, whose upper left corner is (0, 0).

    Attributes:
        values: the lines of the grid, each as y and label.
        moments: the marks of the axis of time, each as x, label and SVG's ``text-anchor``.
        lines: the curve as (x, y); it is in several parts if values between them are unknown.
    """

    WIDTH: ClassVar = 400
    HEIGHT: ClassVar = 170
    LEFT: ClassVar = 40  # edges of the part within the axes
    RIGHT: ClassVar = 392
    TOP: ClassVar = 12
    BASE: ClassVar = 146

    values: list[tuple[float, str]]
    moments: list[tuple[float, str, str]]
    lines: list[list[tuple[float, float]]]


def window(span: float) -> float:
    """The shortest of ``WINDOWS`` that shows ``span`` seconds, or the longest."""
    return next((each for each in WINDOWS if each >= span), WINDOWS[-1])


def ticks(highest: float) -> list[float]:
    """Round values from 0 to the first that is not below ``highest``, evenly apart."""
    if highest <= 0:
        return [0.0, 1.0]
    raw = highest / _INTERVALS
    magnitude = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * magnitude for factor in (1, 2, 5, 10) if factor * magnitude >= raw * (1 - 1e-9))
    return [index * step for index in range(math.ceil(highest / step - 1e-9) + 1)]


def lay_out(points: Sequence[Point], seconds: float) -> Chart:
    """Lay out the chart of the last ``seconds``, one of ``WINDOWS``.

    Args:
        points: in the order of time; where one has no value the curve is broken.
        seconds: from the left edge to the right, which is now.
    """
    shown = [point for point in points if point.ago <= seconds]
    marks = ticks(max((point.value for point in shown if point.value is not None), default=0.0))

    def x(ago: float) -> float:
        return round(Chart.LEFT + (Chart.RIGHT - Chart.LEFT) * (1 - ago / seconds), 1)

    def y(value: float) -> float:
        return round(Chart.BASE - (Chart.BASE - Chart.TOP) * value / marks[-1], 1)

    return Chart(
        values=[(y(mark), formatting.short(mark)) for mark in marks],
        moments=[(x(ago), label, anchor) for ago, label, anchor in _moments(seconds)],
        lines=[
            [(x(point.ago), y(point.value or 0.0)) for point in part]
            for is_known, part in groupby(shown, key=lambda point: point.value is not None)
            if is_known
        ],
    )


def _moments(seconds: float) -> list[tuple[float, str, str]]:
    """List the marks of the axis of time: seconds ago, label, and ``text-anchor``."""
    minutes = int(seconds // _MINUTE)
    step = next(step for step in (1, 2, 5, 10) if minutes // step <= _INTERVALS + 1)
    room = minutes * 4 // 5  # the label at the left end is longer
    between = [(minute * _MINUTE, f"{minute} min", "middle") for minute in range(step, room, step)]
    return [(0.0, "now", "end"), *between, (seconds, f"{minutes} min ago", "start")]
