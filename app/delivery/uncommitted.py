"""Remembers how old the first record of a partition is that is consumed and not committed yet."""

import time
from bisect import bisect_right
from operator import itemgetter

_MOST_MARKS = 1_000  # some 100 kB for each partition
_offset = itemgetter(0)


class Uncommitted:
    """Keeps a mark for each poll: the offset and the time of its first record. For the consumer's thread.

    ``oldest`` says when the first record came into being that is not committed, in epoch seconds; after a commit in the
    middle of a poll it is the first of that poll. Safe to read from any thread.
    """

    __slots__ = ("_marks", "oldest")

    def __init__(self) -> None:
        self._marks: list[tuple[int, float]] = []
        self.oldest: float | None = None

    def consumed(self, offset: int, timestamp: int | None) -> None:
        """Note the first record of a poll, with its timestamp in ms; one that is read again changes nothing.

        Without a timestamp, and where a producer's clock is ahead, the record counts from now on.
        """
        if self._marks and offset <= self._marks[-1][0]:
            return
        now = time.time()
        self._marks.append((offset, now if timestamp is None else min(now, timestamp / 1000)))
        if len(self._marks) > _MOST_MARKS:
            del self._marks[1::2]  # the mark before stands for these records too: they count as a little older
        self.oldest = self._marks[0][1]

    def committed(self, following: int, *, is_all: bool) -> None:
        """Forget what is committed, up to before ``following``; ``is_all``: nothing was consumed from there on."""
        if is_all:
            self._marks.clear()
        else:
            del self._marks[: max(0, bisect_right(self._marks, following, key=_offset) - 1)]
        self.oldest = self._marks[0][1] if self._marks else None
