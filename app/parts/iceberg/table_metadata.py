"""What an Iceberg table says of itself: how far topic-partitions are, and which snapshots may go. Pure.

The property ``lake.<group>.<topic>.<partition>`` is ``<end>@<series>``, followed by those of a few former series: it
makes a repeated commit harmless. A damaged one is a ``FatalError``.
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
_SNAPSHOTS: Final = 1_000  # each commit reads and writes the list of all: 3,000 take 4 times as long as 10
_DAY: Final = 24 * 3_600_000  # in milliseconds, as all times here


def are_in(properties: Mapping[str, str], group: str, marks: Iterable[Mark]) -> bool:
    """Whether the table has all rows up to these marks; never if there are none."""
    reached = [_ends(properties, group, mark).get(mark.series, -math.inf) >= mark.end for mark in marks]
    return bool(reached) and all(reached)


def properties_of(properties: Mapping[str, str], group: str, marks: Iterable[Mark]) -> dict[str, str]:
    """Returns the properties to set together with the files up to these marks."""
    wanted = {}
    for mark in marks:
        ends = _ends(properties, group, mark)
        newest = max(mark.end, ends.pop(mark.series, mark.end))
        kept = [(mark.series, newest), *ends.items()][:_SERIES_KEPT]
        wanted[_name(group, mark)] = " ".join(f"{end}@{series}" for series, end in kept)
    return wanted


def _ends(properties: Mapping[str, str], group: str, mark: Mark) -> dict[str, int]:
    name = _name(group, mark)
    texts = [text.partition("@") for text in properties.get(name, "").split()]
    try:
        return {series: int(end) for end, _, series in texts}
    except ValueError:
        raise FatalError(
            f"reading the property {name} of the table",
            "it is not what a connector has written",
            "Bring the former value back: without it rows could be there twice",
        ) from None


def _name(group: str, mark: Mark) -> str:
    encoded = group.replace("%", "%25").replace(".", "%2E")  # so that it ends at the next dot
    return f"lake.{encoded}.{mark.tp.topic}.{mark.tp.partition}"


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
        oldest = max(now - keep_days * _DAY, *times[-_SNAPSHOTS:][:1])
    fewest = int(properties.get(TableProperties.MIN_SNAPSHOTS_TO_KEEP, 1))
    by_id = {each.snapshot_id: each for each in metadata.snapshots}
    kept = {its for each in metadata.refs.values() for its in _kept(each, by_id, fewest, now)}
    found = [key for key, each in by_id.items() if each.timestamp_ms < oldest and key not in kept]
    return found[:_SNAPSHOTS]  # pyiceberg looks for each of them in the list of all


def _kept(reference: SnapshotRef, snapshots: Mapping[int, Snapshot], fewest: int, now: float) -> Iterator[int]:
    """Yields the ids of the snapshots that are kept for a branch or tag, whatever their age in the table."""
    is_branch = reference.snapshot_ref_type == SnapshotRefType.BRANCH
    wanted = (reference.min_snapshots_to_keep or fewest) if is_branch else 1
    oldest = now - (reference.max_snapshot_age_ms or -math.inf)
    each = snapshots.get(reference.snapshot_id)
    while each and (wanted > 0 or each.timestamp_ms >= oldest):
        yield each.snapshot_id
        each, wanted = snapshots.get(each.parent_snapshot_id or 0), wanted - 1
