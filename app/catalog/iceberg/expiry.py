"""Which snapshots of an Iceberg table may go, by what the table says of itself. Pure."""

import math
from collections.abc import Iterator, Mapping
from typing import Final

from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot

_MOST: Final = 1_000  # each commit reads and writes the list of all: with 3,000 it takes 4 times as long as with 10
_DAY: Final = 24 * 3_600_000  # in milliseconds, as all times here


def expired(metadata: TableMetadata, keep_days: float, now: float) -> list[int]:
    """Returns the ids of old snapshots that no branch or tag has to keep.

    An age that is the table's own counts instead of ``keep_days``, and of how many there may be.
    """
    properties, times = metadata.properties, sorted(each.timestamp_ms for each in metadata.snapshots)
    if properties.get("gc.enabled", "true").lower() != "true":
        return []
    if age := properties.get(TableProperties.MAX_SNAPSHOT_AGE_MS):
        oldest = now - int(age)
    else:
        oldest = max(now - keep_days * _DAY, *times[-_MOST:][:1])
    fewest = int(properties.get(TableProperties.MIN_SNAPSHOTS_TO_KEEP, 1))
    by_id = {each.snapshot_id: each for each in metadata.snapshots}
    kept = {its for each in metadata.refs.values() for its in _kept(each, by_id, fewest, now)}
    found = [key for key, each in by_id.items() if each.timestamp_ms < oldest and key not in kept]
    return found[:_MOST]  # pyiceberg looks for each of them in the list of all


def _kept(reference: SnapshotRef, snapshots: Mapping[int, Snapshot], fewest: int, now: float) -> Iterator[int]:
    """Yields the ids of the snapshots that are kept for a branch or tag, whatever their age in the table."""
    is_branch = reference.snapshot_ref_type == SnapshotRefType.BRANCH
    wanted = (reference.min_snapshots_to_keep or fewest) if is_branch else 1
    oldest = now - (reference.max_snapshot_age_ms or -math.inf)
    each = snapshots.get(reference.snapshot_id)
    while each and (wanted > 0 or each.timestamp_ms >= oldest):
        yield each.snapshot_id
        each, wanted = snapshots.get(each.parent_snapshot_id or 0), wanted - 1
