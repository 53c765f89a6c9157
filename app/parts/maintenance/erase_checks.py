"""Checks for ``erase``: decides which folders are old enough, refuses dangerous runs, and stores the result."""

from argparse import Namespace
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from time import time
from zoneinfo import ZoneInfo

from app.errors import ConfigError
from app.formatting import duration
from app.parts.maintenance.record import keep_maintenance
from app.storage.base import ObjectStore
from app.storage.conditional import own_object
from app.table.layout import TIME_COLUMNS, journal_folder

_MOST_OFF = 3600.0  # maximum difference in seconds between this machine's clock and the store's clock


def has_ended(values: Mapping[str, str | None], age: timedelta, zone: str) -> bool:
    """Return whether the period in the partition values ended at least ``age`` ago. Null is never old."""
    # If the month is missing between year and day, only the year is compared.
    texts = [values[name] or "" for name in takewhile(values.__contains__, TIME_COLUMNS)]
    if not (texts and all(map(str.isdecimal, texts))):
        return False
    try:
        parts = tuple(map(int, texts))  # int raises ValueError for more than 4,300 digits
        year, month, day, hour = (*parts, *(1, 1, 0)[len(parts) - 1 :])
        datetime(year, month, day, hour)
        limit = (datetime.now(UTC) - age).astimezone(ZoneInfo(zone))
    except (ValueError, OverflowError):
        return False
    return parts < tuple(limit.timetuple())[: len(parts)]


def refuse_clock(options: Namespace, store: ObjectStore, root: str) -> None:
    """Raise ``ConfigError`` if this machine's clock and the store's clock differ by more than an hour."""
    if options.older_than is None or options.dry_run:
        return
    with own_object(journal_folder(root), store.delete) as key:
        store.overwrite(key, b"{}")
        ahead = [(datetime.now(UTC) - stored.last_modified).total_seconds() for stored in store.list(key)]
    if (off := max(ahead, key=abs, default=0.0)) and abs(off) > _MOST_OFF:
        keep_maintenance(store, root, clock=off)
        cause = f"this machine's clock is {duration(abs(off))} {'ahead of' if off > 0 else 'behind'} the store's"
        raise ConfigError("erasing old rows", cause, "Nothing was erased. Synchronise this machine's clock (NTP)")


def refuse_most(options: Namespace, store: ObjectStore, root: str, sizes: Iterable[tuple[int, bool]]) -> None:
    """Raise ``ConfigError`` for a larger part than ``--at-most``. ``sizes``: bytes, and whether to erase the bytes."""
    erased = total = 0
    for size, is_erased in sizes if options.at_most else ():
        erased, total = erased + size * is_erased, total + size
    if total and (percent := 100 * erased / total) > options.at_most:
        if not options.dry_run:
            keep_maintenance(store, root, refused=percent)
        cause = f"they are {percent:.0f} % of the table's {total:,} bytes, and --at-most is {options.at_most}"
        hint = "If they may all be erased, set KEEP_CONFIRMED to the value of KEEP, or omit --at-most in the command"
        raise ConfigError("erasing old rows", cause, hint)


def note_erased(options: Namespace, store: ObjectStore, root: str, rows: int, failed: int = 0) -> None:
    """Store the result of a complete ``erase --older-than``. ``failed`` is the number of folders with an error."""
    if options.older_than is not None and not options.folder and not options.dry_run:
        age = options.older_than.total_seconds()
        keep_maintenance(store, root, erased=time(), age=age, rows=rows, left=failed, refused=0, clock=0)
