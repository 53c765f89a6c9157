"""Draws a line chart over time as SVG: the status page loads nothing and runs no script."""

import math
from collections.abc import Sequence
from html import escape
from itertools import groupby

from app import formatting
from app.monitoring.history import Point

WINDOWS = (300.0, 600.0, 1_800.0)  # seconds that a picture may show
_WIDTH, _HEIGHT = 400, 170
_LEFT, _RIGHT, _TOP, _BOTTOM = 40, 8, 12, 24
_INTERVALS = 4  # between the lines of the grid, at most
_MINUTE = 60


def window(span: float) -> float:
    """The shortest of ``WINDOWS`` that shows all of so many seconds, or the longest."""
    return next((each for each in WINDOWS if each >= span), WINDOWS[-1])


def ticks(highest: float) -> list[float]:
    """Round values from 0 to the first that is not below ``highest``, evenly apart."""
    if highest <= 0:
        return [0.0, 1.0]
    raw = highest / _INTERVALS
    magnitude = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * magnitude for factor in (1, 2, 5, 10) if factor * magnitude >= raw * (1 - 1e-9))
    return [index * step for index in range(math.ceil(highest / step - 1e-9) + 1)]


def draw(points: Sequence[Point], seconds: float, title: str, unit: str) -> str:
    """The picture of the last so many seconds.

    Args:
        points: in the order of time; where one has no value the line is broken.
        seconds: how far back it goes, one of ``WINDOWS``.
        title: for those who cannot see it.
        unit: of the values.
    """
    shown = [point for point in points if point.ago <= seconds]
    values = [point.value for point in shown if point.value is not None]
    marks = ticks(max(values, default=0.0))
    top = marks[-1]

    def x(ago: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (1 - ago / seconds)

    def y(value: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * value / top

    parts = [f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}">']
    for mark in marks:
        at = y(mark)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{at + 3.5:.1f}" text-anchor="end">{formatting.short(mark)}</text>')
    for ago, words, anchor in _moments(seconds):
        parts.append(f'<text x="{x(ago):.1f}" y="{_HEIGHT - 8}" text-anchor="{anchor}">{words}</text>')
    base = y(0)
    for is_known, group in groupby(shown, key=lambda point: point.value is not None):
        if not is_known:
            continue
        line = [(x(point.ago), y(point.value or 0.0)) for point in group]
        path = " L".join(f"{left:.1f} {down:.1f}" for left, down in line)
        parts.append(f'<path class="area" d="M{line[0][0]:.1f} {base:.1f} L{path} L{line[-1][0]:.1f} {base:.1f}Z"/>')
        parts.append(f'<path class="line" d="M{path}"/>')
        if len(line) == 1:
            parts.append(f'<circle class="dot" cx="{line[0][0]:.1f}" cy="{line[0][1]:.1f}" r="2"/>')
    if not values:
        parts.append(f'<text x="{(_LEFT + _WIDTH) / 2}" y="{_HEIGHT / 2}" text-anchor="middle">no {unit} yet</text>')
    return "".join([*parts, "</svg>"])


def _moments(seconds: float) -> list[tuple[float, str, str]]:
    """The marks of the axis of time: how long ago, the words, and how they are placed."""
    minutes = int(seconds // _MINUTE)
    step = next(step for step in (1, 2, 5, 10) if minutes // step <= _INTERVALS + 1)
    room = minutes * 4 // 5  # the words at the left end are longer
    between = [(minute * _MINUTE, f"{minute} min", "middle") for minute in range(step, room, step)]
    return [(0.0, "now", "end"), *between, (seconds, f"{minutes} min ago", "start")]
