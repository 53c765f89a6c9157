"""Where consuming begins after a claim, from what the journal and Kafka say. Pure."""

from dataclasses import dataclass, replace
from typing import Literal

from app.journal_entry import JournalEntry


@dataclass(frozen=True, slots=True)
class KafkaPosition:
    """What Kafka says of a topic-partition.

    Args:
        committed: the group's offset, ``None`` without one.
        low: the first offset that is still there.
        high: the offset of the next record to come.
        topic_id: of the topic's present life; empty where the broker does not tell.
    """

    committed: int | None
    low: int
    high: int
    topic_id: str


@dataclass(frozen=True, slots=True)
class Start:
    """Where consuming begins, and what the user should know about it.

    ``remark`` is empty for the ordinary case; ``is_loss`` tells that records are gone from Kafka which the table lacks;
    ``skipped`` counts those that are after the group's offset and in the table already, after a crash for example;
    ``moves_group`` tells that the group's offset in Kafka, if it has one, is another; ``replayed_to`` is the last
    offset that is in the table already, where records up to it come again for the state that ``transform()`` keeps.
    """

    offset: int
    remark: str = ""
    is_loss: bool = False
    skipped: int = 0
    moves_group: bool = False
    replayed_to: int = -1

    @property
    def in_table(self) -> int:
        """The last offset whose record is in the table, or is to be in none."""
        return max(self.offset - 1, self.replayed_to)


def start_of(
    entry: JournalEntry | None,
    kafka: KafkaPosition,
    *,
    reset: Literal["earliest", "latest"],
    prefer_committed: bool,
    keeps_state: bool,
) -> Start:
    """Choose the first offset to consume.

    Args:
        entry: the settled journal, ``None`` without one.
        kafka: what Kafka says.
        reset: where a group without an offset begins.
        prefer_committed: the user has moved the group's offset by hand and says so (``START_FROM=committed``).
        keeps_state: ``transform()`` does, or repartitions: what it did beside rows is as of the group's offset.
    """
    start = _start_of(entry, kafka, reset, prefer_committed, keeps_state)
    return replace(start, moves_group=start.offset != kafka.committed)


def _start_of(
    entry: JournalEntry | None, kafka: KafkaPosition, reset: str, prefer_committed: bool, keeps_state: bool
) -> Start:
    if entry is None or entry.state == "off":
        return _by_kafka(kafka, reset)
    if _is_another_topic(entry, kafka):
        return Start(
            kafka.low,
            f"the topic was made anew since offset {entry.end} was written: going on from its beginning, {kafka.low}",
        )
    if prefer_committed and kafka.committed is not None and kafka.committed != entry.end + 1:
        start = _by_kafka(kafka, reset)
        moved = f"START_FROM=committed: going on from {start.offset}, the journal is at {entry.end + 1}"
        return Start(start.offset, f"{moved}. {start.remark}".rstrip(". "), start.is_loss)
    if keeps_state and kafka.committed is not None and max(entry.end + 1, kafka.low) <= kafka.committed <= kafka.high:
        return Start(kafka.committed)  # the records in between gave no rows, and are in the state
    if entry.end + 1 < kafka.low:
        return _expired(entry.end + 1, kafka.low)
    if entry.end + 1 > kafka.high:
        return Start(
            kafka.high,
            f"Kafka ends at offset {kafka.high}, before {entry.end} which is in the table: it lost records, as after "
            "an unclean leader election. Records with the same offsets may be in the table with other contents",
            is_loss=True,
        )
    behind = entry.end + 1 - kafka.committed if kafka.committed is not None else 0
    if keeps_state and kafka.committed is not None and (first := max(kafka.committed, kafka.low)) <= entry.end:
        return _for_state(first, entry.end)
    return Start(entry.end + 1, skipped=max(behind, 0))


def _by_kafka(kafka: KafkaPosition, reset: str) -> Start:
    if kafka.committed is None:
        return Start(kafka.high if reset == "latest" else kafka.low)
    if kafka.committed < kafka.low:
        return _expired(kafka.committed, kafka.low)
    if kafka.committed > kafka.high:
        return Start(kafka.low, f"the group's offset {kafka.committed} is beyond the topic's end: from {kafka.low} on")
    return Start(kafka.committed)


def _for_state(first: int, end: int) -> Start:
    count = f"{end + 1 - first:,} records from offset {first} on are in the table already"
    remark = f"{count}: they go through transform() again, for what it does beside rows, and are not written again"
    return Start(first, remark, replayed_to=end)


def _is_another_topic(entry: JournalEntry, kafka: KafkaPosition) -> bool:
    if entry.topic_id and kafka.topic_id:
        return entry.topic_id != kafka.topic_id
    return kafka.high <= entry.end


def _expired(wanted: int, low: int) -> Start:
    lost = f"offsets {wanted} to {low - 1} ({low - wanted:,} records) are gone from Kafka before they were read"
    return Start(low, f"{lost}: going on from {low}. Raise the topic's retention", is_loss=True)
