"""Keeps the last warnings and errors of the log for the status page."""

import logging
from collections import deque
from dataclasses import dataclass

from app.redaction import redact

_REMEMBERED = 10  # warnings and errors
_LONGEST = 500  # characters of one of them


@dataclass(frozen=True, slots=True)
class Warned:
    """A line of the log: seconds since the epoch, level, and text."""

    at: float
    level: str
    message: str


class RecentWarnings(logging.Handler):
    """A handler for the root logger."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._last: deque[Warned] = deque(maxlen=_REMEMBERED)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            message = redact(record.getMessage())
        except Exception:  # noqa: BLE001 - a library's format does not fit its values; logging must not fail
            self.handleError(record)
            return
        if len(message) > _LONGEST:
            message = message[:_LONGEST] + "…"
        self._last.append(Warned(record.created, record.levelname, message))

    def newest_first(self) -> list[Warned]:
        return list(self._last.copy())[::-1]
