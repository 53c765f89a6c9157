"""Calculates from an Iceberg table's metadata how far topic-partitions are, and which snapshots expire. Pure.

The property ``lake.<group>.<topic>.<partition>`` is ``<end>@<series>``, followed by the ends of a few earlier series.
It makes a repeated commit harmless. A damaged property is a ``FatalError``.
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

_SERIES_KEPT = 4  # of a topic-partition
_SNAPSHOTS: Final = 1_000  # each commit reads and writes the list of all: 4 times slower with 3,000 than with 10
_DAY: Final = 24 * 3_600_000  # in milliseconds, as all times here


def are_in(properties: Mapping[str, str], group: str, marks: Iterable[Mark]) -> bool:
    """Whether the table contains all rows up to these marks; false without marks."""
    reached = [_ends(properties, group, mark).get(mark.series, -math.inf) >= mark.end for mark in marks]
    return bool(reached) and all(reached)


def properties_of(properties: Mapping[str, str], group: str, marks: Iterable[Mark]) -> dict[str, str]:
    """Return the properties to set together with the files up to these marks."""
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
    encoded = group.replace("%", "%25").replace(".", "%2E")  # so that it ends at the next dot
    return f"lake.{encoded}.{mark.tp.topic}.{mark.tp.partition}"


def expired(metadata: TableMetadata, keep_days: float, now: float) -> list[int]:
    """Return the ids of old snapshots that no branch or tag has to keep.

    If the table has a maximum age, it replaces ``keep_days`` and the maximum number of snapshots.
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
    return old[:_SNAPSHOTS]  # pyiceberg searches the list of all for each of them


def _kept(reference: SnapshotRef, snapshots: Mapping[int, Snapshot], fewest: int, now: float) -> Iterator[int]:
    """Yield the ids of the snapshots to keep for a branch or tag, at any age."""
    is_branch = reference.snapshot_ref_type == SnapshotRefType.BRANCH
    missing = (reference.min_snapshots_to_keep or fewest) if is_branch else 1
    oldest = now - (reference.max_snapshot_age_ms or -math.inf)
    snapshot = snapshots.get(reference.snapshot_id)
    while snapshot and (missing > 0 or snapshot.timestamp_ms >= oldest):
        yield snapshot.snapshot_id
        snapshot, missing = snapshots.get(snapshot.parent_snapshot_id or 0), missing - 1
