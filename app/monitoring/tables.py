"""The status of each table where the process has several."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from app.monitoring.history import History
from app.monitoring.metrics import Counts
from app.monitoring.status import PartitionRow, Status


def of_tables(whole: Status) -> list[Status]:
    """Returns what a process with each of several tables alone would show, without a history.

    Tables that are set aside come first, then those that wait, then those with the oldest records.
    """
    of_topics: dict[str, list[PartitionRow]] = {topic: [] for topic in whole.live.consumption.aside}
    for row in whole.rows if whole.identity.has_tables else ():
        of_topics.setdefault(row.tp.topic, []).append(row)
    found = [_of_table(whole, topic, rows) for topic, rows in of_topics.items()]
    return sorted(found, key=lambda each: (not each.live.consumption.aside, not each.live.waits))


def _of_table(whole: Status, topic: str, rows: Sequence[PartitionRow]) -> Status:
    identity, live, lane, counts = whole.identity, whole.live, whole.live.consumption, whole.counts
    name, tps = identity.table_of(topic), frozenset(row.tp for row in rows)
    places: dict[str, Any] = {
        each: f"{getattr(identity, each).rpartition('/')[0]}/{name}" for each in ("table", "root", "dead_letter")
    }
    lane = replace(
        lane,
        tps=tps,
        unclaimed=lane.unclaimed & tps,
        fenced={tp: lane.fenced[tp] for tp in tps if tp in lane.fenced},
        aside={topic: lane.aside[topic]} if topic in lane.aside else {},
        left_out={},
        deleted=(),
        oldest={tp: lane.oldest[tp] for tp in tps if tp in lane.oldest},
    )
    waits, state = tuple(wait for wait in live.waits if wait.table in ("", name)), live.state
    if state in ("waiting", "consuming") and live.spark == "running":
        state = "waiting" if waits or lane.aside or lane.unclaimed or lane.fenced else "consuming"
    live = replace(live, state=state, consumption=lane, skipped=0, waits=waits)
    positions = {row.tp: row.position for row in rows if row.position}
    counts = replace(counts.of_tables.get(name, Counts()), at=counts.at, positions=positions)
    identity = replace(identity, topic=topic, keep=None, compaction_seconds=None, **places)  # their last run is of all
    return Status(identity, live, counts, History(), whole.monotonic)
