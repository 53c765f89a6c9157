"""When rows came to lie where they belong, and the rate of a sink that has warmed up."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

# The first rows wait for Java and its compiler, the last ones for a commit, whose time the clock decides.
WARM_FROM, WARM_TO = 0.20, 0.95
# Files that come in at about the same time are one batch: the time between them tells nothing of a rate.
SHORTEST_SECONDS = 1.0


class LandedFile(NamedTuple):
    """When a file came in, in seconds since the epoch, how many rows its footer tells, and its bytes."""

    time: float
    rows: int
    size: int


@dataclass(frozen=True, slots=True)
class Window:
    """The part of a run in which ``rows`` landed, from ``begin`` to ``end`` in seconds since the epoch."""

    begin: float
    end: float
    rows: int

    @property
    def rate(self) -> float:
        """Rows per second."""
        return self.rows / (self.end - self.begin)


def warm_window(files: Sequence[LandedFile]) -> Window | None:
    """From when a fifth of the rows had landed to when 95 % had.

    Args:
        files: in the order in which they came in.

    Returns:
        None when that is less than a second: there were too few batches to tell a rate.
    """
    total = sum(file.rows for file in files)
    begin, before = _reached(files, WARM_FROM * total)
    end, after = _reached(files, WARM_TO * total)
    return Window(begin, end, after - before) if end - begin >= SHORTEST_SECONDS else None


def _reached(files: Sequence[LandedFile], rows: float) -> tuple[float, int]:
    """When so many rows had landed, and how many it were then."""
    landed = 0
    for file in files:
        landed += file.rows
        if landed >= rows:
            return file.time, landed
    raise ValueError(f"{landed:,} rows in these files, {rows:,.0f} looked for")
