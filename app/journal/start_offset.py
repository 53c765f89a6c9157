"""Chooses the first offset to consume, from the settled journal, Kafka's offsets and the user's settings.

``start_of`` contains the rules, and queries no system. If the group has no journal and no offset,
``app.journal.first_offsets`` decides.
"""

from dataclasses import dataclass, replace
from uuid import uuid4

from app.errors import ConfigError
from app.journal.first_offsets import FirstOffsets
from app.journal.journal import FencedError
from app.journal.log import Progress
from app.kafka.questions import GroupOffsets, PartitionOffsets
from app.kafka.watch import TopicIds, ids_differ
from app.model import TopicPartition

_TEXTS = 5  # values of FOLLOW_OFFSETS; during a rolling update, two values alternate


@dataclass(frozen=True, slots=True)
class Start:
    """The first offset to consume, and a remark for the log messages."""

    offset: int
    remark: str = ""  # empty if nothing is unusual
    is_loss: bool = False  # Kafka has deleted records that are not in the table
    skipped: int = 0  # number of records after the group's offset that are in the table already
    replayed_to: int = -1  # last offset in the table, if records are read again for the state of ``transform()``
    is_set: bool = False  # a tool has set the offset; the connector commits an own offset before it writes

    @property
    def in_table(self) -> int:
        """The last offset whose record is in the table or gives no row."""
        return max(self.offset - 1, self.replayed_to)


def check_cluster(progress: Progress, cluster_id: str, tp: TopicPartition, *, follows: bool) -> None:
    """Refuse the journal of another Kafka cluster, because a claim would fence the connector of that cluster."""
    if not ids_differ(progress.cluster_id, cluster_id) or follows:
        return
    raise ConfigError(
        f"claiming {tp}",
        f"its journal is of the Kafka cluster {progress.cluster_id}, and this is the cluster {cluster_id}. With the "
        "same group, topic and table, each cluster's connector would skip records because of the other cluster's",
        "Set another CONSUMER_GROUP or TABLE_NAME for this cluster. If this cluster replaces the other one, stop all "
        "connectors there, set the group's offsets here to where this connector is to continue (the table contains "
        f"all up to offset {progress.end} of the other cluster), and change the value of FOLLOW_OFFSETS",
    )


def lacks_offset(progress: Progress | None, kafka: PartitionOffsets) -> bool:
    """Whether the partition has no journal of this cluster and no offset of the group."""
    has_journal = progress is not None and not ids_differ(progress.cluster_id, kafka.cluster_id)
    return not has_journal and kafka.committed is None


def start_of(
    tp: TopicPartition,
    progress: Progress | None,
    kafka: PartitionOffsets,
    *,
    first: int,
    follows: bool,
    keeps_state: bool,
) -> Start:
    """Return the first offset to consume.

    Call ``check_cluster`` first, because ``progress`` may belong to another cluster. ``first`` is used only if
    ``lacks_offset`` returns true. If ``follows`` is true, an offset that a tool has set in the group takes precedence
    over the journal. ``keeps_state`` is true if ``transform()`` keeps state or repartitions, up to the group's offset.
    """
    if progress is None:
        return _at_group_offset(kafka, first)
    if ids_differ(progress.cluster_id, kafka.cluster_id):
        why = f"the cluster is {kafka.cluster_id} now and was {progress.cluster_id}"
        return _add_follow_remark(_at_group_offset(kafka, first), why)
    is_recreated = _is_recreated(progress, kafka)
    if follows and kafka.is_set and (is_recreated or kafka.committed != progress.end + 1):
        if not is_recreated and kafka.committed is not None and kafka.committed > kafka.high:
            raise ConfigError(
                f"following the group's offset of {tp}",
                f"{kafka.committed} is beyond the topic's end, {kafka.high}",
                "Set an offset that the topic has, or remove FOLLOW_OFFSETS to continue after the journal's offset",
            )
        journal = "of a deleted topic of the same name" if is_recreated else f"at {progress.end + 1}"
        return _add_follow_remark(_at_group_offset(kafka, first), f"the journal is {journal}")
    if is_recreated:
        why = f"the topic was recreated since offset {progress.end} was written"
        return Start(kafka.low, f"{why}: continuing from its beginning, {kafka.low}")
    return _after_journal(tp, progress, kafka, keeps_state)


def _after_journal(tp: TopicPartition, progress: Progress, kafka: PartitionOffsets, keeps_state: bool) -> Start:
    end, committed = progress.end, kafka.committed
    if committed is not None and max(end + 1, kafka.low) < committed <= kafka.high:
        raise _ahead_error(tp, end, committed, is_set=kafka.is_set)
    if end + 1 < kafka.low:
        return _after_expired(end + 1, kafka.low)
    if end + 1 > kafka.high:
        return Start(
            kafka.high,
            f"Kafka ends at offset {kafka.high}, before {end} which is in the table: it lost records, as "
            "after an unclean leader election. Records with the same offsets may be in the table with other contents",
            is_loss=True,
        )
    if keeps_state and committed is not None and (first := max(committed, kafka.low)) <= end:
        count = f"{end + 1 - first:,} records from offset {first} on are in the table already"
        remark = f"{count}: they go through transform() again, because it keeps state, and are not written again"
        return Start(first, remark, replayed_to=end)
    return Start(end + 1, skipped=0 if committed is None else max(0, end + 1 - committed))


def _at_group_offset(kafka: PartitionOffsets, first: int) -> Start:
    if kafka.committed is None:
        return Start(first)
    if kafka.committed < kafka.low:
        return _after_expired(kafka.committed, kafka.low)
    if kafka.committed > kafka.high:
        return Start(kafka.low, f"the group's offset {kafka.committed} is beyond the topic's end: from {kafka.low} on")
    return Start(kafka.committed)


def _add_follow_remark(start: Start, why: str) -> Start:
    remark = f"FOLLOW_OFFSETS: continuing from {start.offset}, {why}. {start.remark}"
    return replace(start, remark=remark.rstrip(". "))


def _ahead_error(tp: TopicPartition, end: int, committed: int, *, is_set: bool) -> ConfigError:
    who = "another program" if is_set else "a connector with a later journal or another table"
    again = "" if is_set else f"set the group's offset to {committed} with a tool, and "
    return ConfigError(
        f"claiming {tp}",
        f"the journal says that offsets {end + 1} to {committed - 1} are not in the table, and {who} has committed "
        "them for the consumer group",
        f"If they were written into this table, or you don't need them, {again}change the value of FOLLOW_OFFSETS (to "
        "today's date, for example) to continue after them. If they are missing in the table, delete the group's "
        f"offset in Kafka or set it back to {end + 1}, to write them",
    )


def _is_recreated(progress: Progress, kafka: PartitionOffsets) -> bool:
    if progress.topic_id and kafka.topic_id:
        return progress.topic_id != kafka.topic_id
    return kafka.high <= progress.end


def _after_expired(first: int, low: int) -> Start:
    lost = f"offsets {first} to {low - 1} ({low - first:,} records) are not in the table, and Kafka has deleted them"
    return Start(low, f"{lost}: continuing from {low}. Raise the topic's retention", is_loss=True)


@dataclass(frozen=True, slots=True)
class Begin:
    """Where a partition begins. ``start`` is for the consumer, ``progress`` is for the log. Kafka sets ``topic_id``."""

    start: Start
    progress: Progress
    topic_id: str


@dataclass(frozen=True, slots=True)
class Beginnings:
    offsets: GroupOffsets
    topic_ids: TopicIds  # ids of topics whose partitions this process has claimed
    first: FirstOffsets  # for partitions without offset and journal, and for ``follow_offsets``
    follow_offsets: str = ""  # value of the setting; if the log does not contain it, the group's offset decides
    keeps_state: bool = False  # ``transform()`` keeps state or repartitions

    def check(self, tp: TopicPartition, former: Progress, cluster_id: str) -> None:
        """Raise ``ConfigError`` for a journal of another cluster, before the journal's owner is fenced."""
        check_cluster(former, cluster_id, tp, follows=self._follows(former))

    def of(self, tp: TopicPartition, former: Progress | None, *, is_again: bool) -> Begin:
        """Return how the partition begins. ``is_again`` is true if another member has closed this member's log."""
        if is_again and former is None and self.topic_ids.was_claimed(tp):
            # The table was deleted, and the remaining records must not begin a new table.
            raise FencedError(f"the journal of {tp} is missing, as after the table was deleted")
        kafka = self.offsets.of(tp)
        start = self.start(tp, former, kafka)
        progress = self._progress(tp, former, start, kafka)
        if is_again:
            start = replace(start, skipped=0)  # the reason is known, so these records are not logged
        return Begin(start, progress, kafka.topic_id)

    def start(self, tp: TopicPartition, former: Progress | None, kafka: PartitionOffsets) -> Start:
        moved = self.first.followed(tp, kafka, self.follow_offsets) if self.follow_offsets else None
        follows = moved is not None and self._follows(former)
        # If a member died during its claim and wrote nothing, the group's offset may be older than the set time.
        begins = (moved.committed if moved else None) or 0  # Kafka may have deleted records after this offset
        if moved is not None and (follows or (former and begins <= former.end + 1 <= max(begins, kafka.low))):
            kafka = moved
        was_added = bool(self.follow_offsets) and moved is None  # after the offsets of the time were calculated
        first = kafka.low if was_added or not lacks_offset(former, kafka) else self.first.of(tp, kafka)
        start = start_of(tp, former, kafka, first=first, follows=follows, keeps_state=self.keeps_state)
        return replace(start, is_set=kafka.is_set)

    def _follows(self, former: Progress | None) -> bool:
        """Whether the group's offset counts. Each new value of the setting is effective only once."""
        return bool(self.follow_offsets) and (former is None or self.follow_offsets not in former.followed)

    def _progress(self, tp: TopicPartition, former: Progress | None, start: Start, kafka: PartitionOffsets) -> Progress:
        """Return the first progress for the log. If Kafka does not report an id, the former id is kept."""
        continues = former is not None and former.end == start.in_table
        followed, text = former.followed if former else [], self.follow_offsets
        return Progress(
            topic=tp.topic,
            partition=tp.partition,
            end=start.in_table,
            topic_id=kafka.topic_id or (former.topic_id if former and continues else ""),
            cluster_id=kafka.cluster_id or (former.cluster_id if former else ""),
            followed=[*followed, text][-_TEXTS:] if text and text not in followed else followed,
            series=(former.series if former and continues else "") or uuid4().hex[:8],
        )
