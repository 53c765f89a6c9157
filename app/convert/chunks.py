"""Which messages of a batch are converted at once: as many as are worth it, and fewer where some of them are odd.

The chunks of a batch follow each other in the order of its messages, for it is the first value of a column that
decides on its type.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from app.model import Batch, Message

FEW = 256  # parsing fewer at once than this is not worth it
_MOST_BYTES = 8 * 2**20  # they are copied to be parsed
# Where each message has field names of its own, the columns of so many messages have the square of that as cells.
_MOST_ONE_BY_ONE = 2048
_SHRINK = 4
_GROW = 2


@dataclass(frozen=True, slots=True)
class Chunk:
    """Messages ``start`` to ``stop`` (excluded) of a part; the first has the place ``start + offset`` in the batch."""

    part: int
    start: int
    stop: int
    offset: int

    def __len__(self) -> int:
        return self.stop - self.start

    def split(self, size: int) -> "tuple[Chunk, Chunk]":
        """The first messages, and the rest."""
        middle = min(self.start + size, self.stop)
        return Chunk(self.part, self.start, middle, self.offset), Chunk(self.part, middle, self.stop, self.offset)

    def of(self, batch: Batch) -> Sequence[Message]:
        return batch.messages[self.part][self.start : self.stop]

    @property
    def places(self) -> range:
        return range(self.start + self.offset, self.stop + self.offset)


def chunks(batch: Batch) -> Iterator[Chunk]:
    """All messages of a batch, cut where a part or the memory for one chunk ends; rows have the places before."""
    offset = sum(map(len, batch.rows))
    for part, messages in enumerate(batch.messages):
        sizes = list(accumulate(map(len, messages)))
        start = 0
        while start < len(messages):
            before = sizes[start - 1] if start else 0
            stop = max(start + 1, bisect_right(sizes, before + _MOST_BYTES))
            yield Chunk(part, start, stop, offset)
            start = stop
        offset += len(messages)


class Pace:
    """How many messages to try at once where not all of a chunk can be: more after a success, less after a failure.

    Of 40,000 messages with a single odd one in it, all but a few hundred are parsed twice on average. Where most are
    odd, this is noticed after a few small tries.

    Args:
        first: how many to try first.
    """

    def __init__(self, first: int) -> None:
        self.size = max(FEW, first)
        self._failures = 0

    def succeeded(self) -> None:
        self.size *= _GROW
        self._failures = 0

    def failed(self, tried: int) -> int:
        """How many of those that were tried, and more, are to be looked at one by one; 0 while fewer can be tried."""
        if tried > FEW:
            self.size = max(FEW, min(self.size, tried) // _SHRINK)
            return 0
        self._failures += 1
        return min(FEW << (self._failures - 1), _MOST_ONE_BY_ONE)
