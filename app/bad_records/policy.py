"""The user's choice for bad records: keep them in the dead letter, skip them, or end the process."""

import time
from collections.abc import Callable
from typing import Literal

from app.errors import DataError
from app.logs import OnceAMinute
from app.model import Rejected

OnBadRecord = Literal["dead-letter", "skip", "fail"]


class BadRecords:
    """Applies the user's choice to each bad record. Logs one a minute at most, and their number at the end."""

    def __init__(
        self, choice: OnBadRecord, log: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._choice = choice
        self._log = log
        self._found = OnceAMinute(clock)  # by the consumer's thread, and by the staging thread

    @property
    def skipped(self) -> int:
        """The number of records skipped since the start; safe from any thread."""
        return self._found.count if self._choice == "skip" else 0

    def keep(self, rejected: Rejected, hint: str) -> bool:
        """Returns whether the record goes to the dead letter; raises ``DataError`` if the process is to end."""
        record = f"the record of {rejected.tp} at offset {rejected.offset}"
        if self._choice == "fail":
            raise DataError(f"reading {record}", rejected.reason, hint, record=(rejected.tp, rejected.offset))
        if (since := self._found.turn()) is not None:
            fate = "goes to the dead letter" if self._choice == "dead-letter" else "is skipped (ON_BAD_RECORD=skip)"
            self._log(f"{record} {fate}: {rejected.reason}. {hint}{since}")
        return self._choice == "dead-letter"

    def log_total(self) -> None:
        """Logs how many there were since the start, if any: those since the last message are logged nowhere else.

        One that is read again, as after a pause, counts again.
        """
        if self._found.count:
            fate = "went to the dead letter" if self._choice == "dead-letter" else "were skipped (ON_BAD_RECORD=skip)"
            self._log(f"bad records since the start: {self._found.count:,}; they {fate}")
