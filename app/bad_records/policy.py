"""The user's choice for bad records: keep them in the dead letter, skip them, or end the process."""

import threading
import time
from collections.abc import Callable
from typing import Literal

from app.errors import DataError
from app.model import Rejected

OnBadRecord = Literal["dead-letter", "skip", "fail"]

_LOGGED_EVERY_SECONDS = 60.0


class BadRecords:
    """Applies the user's choice to each bad record. Logs one a minute at most, and their number at the end."""

    def __init__(
        self, choice: OnBadRecord, log: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._choice = choice
        self._log = log
        self._clock = clock
        self._lock = threading.Lock()  # the consumer's thread finds some, the staging thread others
        self._next_message = float("-inf")
        self._not_logged = 0
        self._count = 0

    @property
    def skipped(self) -> int:
        """The number of records skipped since the start; safe from any thread."""
        return self._count if self._choice == "skip" else 0

    def keep(self, rejected: Rejected, hint: str) -> bool:
        """Returns whether the record goes to the dead letter; raises ``DataError`` if the process is to end."""
        if self._choice == "fail":
            raise DataError(
                f"reading the record of {rejected.tp} at offset {rejected.offset}",
                rejected.reason,
                hint,
                record=(rejected.tp, rejected.offset),
            )
        self._log_record(rejected, hint)
        return self._choice == "dead-letter"

    def log_total(self) -> None:
        """Logs how many there were since the start, if any: those since the last message are logged nowhere else.

        One that is read again, as after a pause, counts again.
        """
        if self._count:
            fate = "went to the dead letter" if self._choice == "dead-letter" else "were skipped (ON_BAD_RECORD=skip)"
            self._log(f"bad records since the start: {self._count:,}; they {fate}")

    def _log_record(self, rejected: Rejected, hint: str) -> None:
        with self._lock:
            self._count += 1
            if self._clock() < self._next_message:
                self._not_logged += 1
                return
            self._next_message = self._clock() + _LOGGED_EVERY_SECONDS
            more, self._not_logged = self._not_logged, 0
        fate = "goes to the dead letter" if self._choice == "dead-letter" else "is skipped (ON_BAD_RECORD=skip)"
        since = f" ({more:,} more since the last such message)" if more else ""
        self._log(f"the record of {rejected.tp} at offset {rejected.offset} {fate}: {rejected.reason}. {hint}{since}")
