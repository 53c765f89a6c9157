"""What is old enough to be erased, what is not erased all the same, and the note of what was."""

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

_MOST_OFF = 3600.0  # seconds between two clocks


def has_ended(values: Mapping[str, str | None], age: timedelta, zone: str) -> bool:
    """Whether the time that partition values say, in this zone, ended so long ago; a null says none."""
    # With year and day, but without month, only the year says a time.
    texts = [values[name] or "" for name in takewhile(values.__contains__, TIME_COLUMNS)]
    if not (texts and all(map(str.isdecimal, texts))):
        return False
    try:
        parts = tuple(map(int, texts))  # of more than 4,300 digits Python makes none
        year, month, day, hour = (*parts, *(1, 1, 0)[len(parts) - 1 :])
        datetime(year, month, day, hour)
        limit = (datetime.now(UTC) - age).astimezone(ZoneInfo(zone))
    except (ValueError, OverflowError):
        return False
    return parts < tuple(limit.timetuple())[: len(parts)]


def refuse_clock(options: Namespace, store: ObjectStore, root: str) -> None:
    """Refuse to erase by age while this machine's clock is not the store's. A local disk has no clock to compare."""
    if options.older_than is None or options.dry_run:
        return
    with own_object(journal_folder(root), store.delete) as key:
        store.overwrite(key, b"{}")
        ahead = [(datetime.now(UTC) - each.last_modified).total_seconds() for each in store.list(key)]
    if (off := max(ahead, key=abs, default=0.0)) and abs(off) > _MOST_OFF:
        keep_maintenance(store, root, clock=off)
        cause = f"this machine's clock is {duration(abs(off))} {'ahead of' if off > 0 else 'behind'} the store's"
        raise ConfigError("erasing old rows", cause, "Set this machine's clock (NTP); nothing was erased")


def refuse_most(options: Namespace, store: ObjectStore, root: str, sizes: Iterable[tuple[int, bool]]) -> None:
    """Refuse more than ``--at-most``; ``sizes`` are bytes of the table, and whether they would be erased."""
    erased = total = 0
    for size, is_erased in sizes if options.at_most else ():
        erased, total = erased + size * is_erased, total + size
    if total and (percent := 100 * erased / total) > options.at_most:
        if not options.dry_run:
            keep_maintenance(store, root, refused=percent)
        cause = f"these are {percent:.0f} % of the table's {total:,} bytes, and --at-most is {options.at_most}"
        hint = "If all may go: with KEEP, set KEEP_CONFIRMED to it; with the command, leave it out"
        raise ConfigError("erasing old rows", cause, hint)


def note_erased(options: Namespace, store: ObjectStore, root: str, rows: int, left: int = 0) -> None:
    """Store that what is old in the table was erased, but for folders that were left."""
    if options.older_than is not None and not options.folder and not options.dry_run:
        age = options.older_than.total_seconds()
        keep_maintenance(store, root, erased=time(), age=age, rows=rows, left=left, refused=0, clock=0)
