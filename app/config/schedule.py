"""When work is due that comes again and again, in UTC."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from app.formatting import UNITS

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Schedule:
    """Moments at equal distances, the same ones for every process; ``offset`` is that of one from the epoch."""

    text: str
    period: timedelta
    offset: timedelta = timedelta(0)

    def __str__(self) -> str:
        return self.text

    def next(self, now: datetime) -> datetime:
        """Returns the first moment after this one."""
        begin = _EPOCH + self.offset
        return begin + ((now - begin) // self.period + 1) * self.period


def schedule(text: str) -> Schedule:
    """Parses a time of day, such as ``03:15``, or a duration, such as ``6h``."""
    if at := re.fullmatch(r"([01]?\d|2[0-3]):([0-5]\d)", text):
        return Schedule(text, _DAY, timedelta(hours=int(at[1]), minutes=int(at[2])))
    every = re.fullmatch(r"([1-9]\d{0,4})([mhd])", text)
    if not every:
        raise ValueError("must be a time of day in UTC as 03:15, or a duration as 6h, 90m or 1d")
    return Schedule(text, timedelta(**{UNITS[every[2]]: int(every[1])}))
