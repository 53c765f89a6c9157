"""How consuming goes at one moment, for probes, metrics and the status page."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from app.model import TopicPartition


@dataclass(frozen=True, slots=True)
class Consumption:
    """Reads of single values without locks: the consumer's thread goes on meanwhile.

    Attributes:
        assigned: how many partitions are assigned.
        tps: those of them that are known by name.
        unclaimed: those of them that wait for their claims.
        fenced: those of them that must not be written any more, with the reasons.
        oldest: of each partition with records that are not in the lake, when the first of them came into being, in
            seconds since the epoch.
        consumed: how many messages came.
        due_in: seconds until the next commit is due, negative where it is late; ``None`` before consuming begins.
        held_bytes: of all records in Python.
        is_full: whether the buffer has reached its bound.
        is_paused: whether consuming is paused.
        is_stopping: whether a stop was requested.
        is_held_up: whether the last flush failed, and its batches are not in the lake yet.
    """

    assigned: int = 0
    tps: Collection[TopicPartition] = ()
    unclaimed: frozenset[TopicPartition] = frozenset()
    fenced: Mapping[TopicPartition, str] = field(default_factory=dict)
    oldest: Mapping[TopicPartition, float] = field(default_factory=dict)
    consumed: int = 0
    due_in: float | None = None
    held_bytes: int = 0
    is_full: bool = False
    is_paused: bool = False
    is_stopping: bool = False
    is_held_up: bool = False
