"""Bars of messages per second as an SVG that can be read on a light page and on a dark one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, LEFT, RIGHT = 840, 340, 96
TOP, BAR, GAP = 66, 15, 14
STEPS = (1, 2, 2.5, 5, 10)
MOST_LINES = 6
COLD_AND_WARM = ("from the start of the process to the last row", "from 20% to 95% of the rows")
# It brings its own card: where a page is dark and the system is not, text without one could not be read.
STYLE = """\
text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328 }
.card { fill: #ffffff; stroke: #d1d9e0 } .grid { stroke: #d1d9e0 } .faint { fill: #59636e }
.cold { fill: #9ec5f0 } .warm { fill: #57789c } .cold.ours { fill: #f2b36b } .warm.ours { fill: #c96a12 }
.title { font-size: 15px; font-weight: 600 } .ours-name { font-weight: 600 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .card { fill: #151b23; stroke: #3d444d } .grid { stroke: #3d444d } .faint { fill: #9198a1 }
  .cold { fill: #3b5878 } .warm { fill: #7fa8d4 } .cold.ours { fill: #8a5a24 } .warm.ours { fill: #f0943e }
}"""


@dataclass(frozen=True, slots=True)
class Pair:
    """A sink's two bars, in messages per second; ``warm`` is None when it was not measured."""

    title: str
    cold: float
    warm: float | None
    is_ours: bool


def as_svg(title: str, pairs: Sequence[Pair], legend: tuple[str, str] = COLD_AND_WARM) -> str:
    """Two bars for each sink, in the order given.

    Args:
        title: stands above.
        pairs: one at least.
        legend: what the first and the second bar mean.
    """
    height = TOP + len(pairs) * (2 * BAR + GAP) + 34
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" aria-label="{escape(title)}">',
        f"<style>{STYLE}</style>",
        f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>',
        _text(20, 28, title, "title"),
        *_legend(legend),
        *_grid(pairs, height),
        *(line for number, pair in enumerate(pairs) for line in _pair(pair, number, _scale(pairs))),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _legend(meanings: tuple[str, str]) -> Iterator[str]:
    for x, kind, meaning in zip((20, 350), ("cold", "warm"), meanings, strict=True):
        yield f'<rect class="{kind}" x="{x}" y="41" width="12" height="12" rx="2"/>'
        yield _text(x + 18, 52, meaning, "faint")


def _grid(pairs: Sequence[Pair], height: int) -> Iterator[str]:
    step = nice_step(_highest(pairs))
    bottom = height - 30
    for number in range(int(_highest(pairs) / step) + 1):
        x = LEFT + number * step * _scale(pairs)
        yield f'<line class="grid" x1="{x:.1f}" y1="{TOP - 4}" x2="{x:.1f}" y2="{bottom}"/>'
        yield _text(x, bottom + 16, f"{number * step:,.0f}", "faint", "middle")


def _pair(pair: Pair, number: int, scale: float) -> Iterator[str]:
    y = TOP + number * (2 * BAR + GAP)
    yield _text(LEFT - 10, y + BAR + 4, pair.title, "ours-name" if pair.is_ours else "", "end")
    ours = " ours" if pair.is_ours else ""
    for kind, rate, top in (("cold", pair.cold, y), ("warm", pair.warm, y + BAR)):
        if rate is None:
            yield _text(LEFT + 6, top + BAR - 3, "not measured", "faint")
            continue
        width = rate * scale
        yield f'<rect class="{kind}{ours}" x="{LEFT}" y="{top}" width="{width:.1f}" height="{BAR - 1}" rx="2"/>'
        yield _text(LEFT + width + 6, top + BAR - 3, f"{rate:,.0f}")


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _scale(pairs: Sequence[Pair]) -> float:
    """Pixels per message per second."""
    return (WIDTH - LEFT - RIGHT) / _highest(pairs)


def _highest(pairs: Sequence[Pair]) -> float:
    return max(max(pair.cold, pair.warm or 0.0) for pair in pairs)


def nice_step(highest: float) -> float:
    """The distance of the grid's lines: a round number, so that there are at most six of them besides zero."""
    power = 1.0
    while power * STEPS[-1] * MOST_LINES < highest:
        power *= 10
    return next(power * step for step in STEPS if power * step * MOST_LINES >= highest)
