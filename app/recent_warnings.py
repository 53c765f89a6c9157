"""The last warnings and errors of the log, kept for the status page."""

import logging
from collections import deque
from dataclasses import dataclass

_REMEMBERED = 10
_LONGEST = 500  # characters of a message


@dataclass(frozen=True, slots=True)
class Warned:
    """A line of the log: seconds since the epoch, level, and what it says."""

    at: float
    level: str
    message: str


class RecentWarnings(logging.Handler):
    """A handler for the root logger."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._last: deque[Warned] = deque(maxlen=_REMEMBERED)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        message = record.getMessage()
        if len(message) > _LONGEST:
            message = message[:_LONGEST] + "…"
        self._last.append(Warned(record.created, record.levelname, message))

    def newest_first(self) -> list[Warned]:
        return list(self._last.copy())[::-1]
