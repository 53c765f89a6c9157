"""Reads from an Iceberg table's metadata which offsets the table contains, and selects snapshots to expire. No I/O.

The property ``lake.<group>.<topic>.<partition>`` contains the end offset as ``<end>@<series>``, and then the ends of up
to three earlier series. The property makes a repeated commit harmless. ``FatalError`` reports a damaged property.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot

from app.errors import FatalError
from app.model import Mark

_SERIES_KEPT = 4  # number of offset series in the property of a topic-partition
_SNAPSHOTS: Final = 1_000  # a commit rewrites the list of snapshots: 3,000 snapshots need 4 times as long as 10
_DAY: Final = 24 * 3_600_000  # milliseconds, the unit of all times in this module


def are_in(properties: Mapping[str, str], group: str, marks: Iterable[Mark]) -> bool:
    """Return whether the table contains all rows up to these end offsets; false if ``marks`` is empty."""
    reached = [_ends(properties, group, mark).get(mark.series, -math.inf) >= mark.end for mark in marks]
    return bool(reached) and all(reached)


def properties_of(properties: Mapping[str, str], group: str, marks: Iterable[Mark]) -> dict[str, str]:
    """Return the table properties that store these end offsets."""
    updates = {}
    for mark in marks:
        ends = _ends(properties, group, mark)
        newest = max(mark.end, ends.pop(mark.series, mark.end))
        kept = [(mark.series, newest), *ends.items()][:_SERIES_KEPT]
        updates[_name(group, mark)] = " ".join(f"{end}@{series}" for series, end in kept)
    return updates


def _ends(properties: Mapping[str, str], group: str, mark: Mark) -> dict[str, int]:
    name = _name(group, mark)
    texts = [text.partition("@") for text in properties.get(name, "").split()]
    try:
        return {series: int(end) for end, _, series in texts}
    except ValueError:
        raise FatalError(
            f"reading the property {name} of the table",
            "it was not written by a connector",
            "Restore the former value: without it, rows could be duplicated",
        ) from None


def _name(group: str, mark: Mark) -> str:
    encoded = group.replace("%", "%25").replace(".", "%2E")  # so that the group ends at the next dot
    return f"lake.{encoded}.{mark.tp.topic}.{mark.tp.partition}"


def expired(metadata: TableMetadata, keep_days: float, now: float) -> list[int]:
    """Return the ids of old snapshots that no branch or tag keeps.

    If a table property limits the age of snapshots, ``keep_days`` and the maximum number of snapshots are ignored.
    """
    properties, times = metadata.properties, sorted(snapshot.timestamp_ms for snapshot in metadata.snapshots)
    if properties.get("gc.enabled", "true").lower() != "true":
        return []
    if age := properties.get(TableProperties.MAX_SNAPSHOT_AGE_MS):
        oldest = now - int(age)
    else:
        oldest = max(now - keep_days * _DAY, *times[-_SNAPSHOTS:][:1])
    fewest = int(properties.get(TableProperties.MIN_SNAPSHOTS_TO_KEEP, 1))
    by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    kept = {key for reference in metadata.refs.values() for key in _kept(reference, by_id, fewest, now)}
    old = [key for key, snapshot in by_id.items() if snapshot.timestamp_ms < oldest and key not in kept]
    return old[:_SNAPSHOTS]  # for each id, pyiceberg searches the list of all snapshots


def _kept(reference: SnapshotRef, snapshots: Mapping[int, Snapshot], fewest: int, now: float) -> Iterator[int]:
    """Yield the ids of the snapshots that a branch or tag keeps, even if they are old."""
    is_branch = reference.snapshot_ref_type == SnapshotRefType.BRANCH
    missing = (reference.min_snapshots_to_keep or fewest) if is_branch else 1
    oldest = now - (reference.max_snapshot_age_ms or -math.inf)
    snapshot = snapshots.get(reference.snapshot_id)
    while snapshot and (missing > 0 or snapshot.timestamp_ms >= oldest):
        yield snapshot.snapshot_id
        snapshot, missing = snapshots.get(snapshot.parent_snapshot_id or 0), missing - 1
