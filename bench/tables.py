"""Figures as Markdown that can also be read as it is."""

import textwrap
from collections.abc import Iterator, Sequence
from statistics import median


def spread(values: Sequence[float], digits: int) -> str:
    """The median with the lowest and the highest; a dash when there is nothing."""
    if not values:
        return "-"
    lowest, middle, highest = (f"{value:,.{digits}f}" for value in (min(values), median(values), max(values)))
    return f"{middle} ({lowest} to {highest})" if len(values) > 1 else middle


def paragraph(text: str) -> list[str]:
    return textwrap.wrap(text, 110, break_on_hyphens=False, break_long_words=False)


def table(titles: Sequence[str], lines: Sequence[Sequence[str]]) -> Iterator[str]:
    """A Markdown table whose columns also stand under each other in plain text."""
    widths = [max(map(len, column)) for column in zip(titles, *lines, strict=True)]
    yield _line(titles, widths)
    yield "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    for line in lines:
        yield _line(line, widths)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"


def document(parts: Sequence[Iterator[str]]) -> str:
    """The parts under each other, with an empty line between them; a part without lines is left out."""
    return "\n\n".join(text for part in parts if (text := "\n".join(part))) + "\n"
