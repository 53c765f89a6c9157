"""Where consuming a claimed partition begins: from the settled journal, Kafka's offsets and the user's settings."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from uuid import uuid4

from app.journal.journal import FencedError
from app.journal.log import Progress
from app.journal.start_offset import Start, check_cluster, lacks_offset, start_of
from app.kafka.questions import GroupOffsets, PartitionOffsets
from app.kafka.watch import TopicIds
from app.model import TopicPartition


@dataclass(frozen=True, slots=True)
class Begin:
    """How a partition begins: ``start`` is for the consumer, ``progress`` for the log, ``topic_id`` as Kafka says."""

    start: Start
    progress: Progress
    topic_id: str


@dataclass(frozen=True, slots=True)
class Beginnings:
    """Chooses it."""

    offsets: GroupOffsets
    topic_ids: TopicIds  # of the partitions that this process has claimed
    first_offset: Callable[[TopicPartition, PartitionOffsets], int]  # where the group has no offset nor journal
    follow_offsets: str = ""  # the setting's text: where the log has another one, the group's offset decides
    keeps_state: bool = False  # whether ``transform()`` does, or repartitions
    followed: Callable[[TopicPartition, PartitionOffsets], PartitionOffsets] = lambda _, kafka: kafka

    def check(self, tp: TopicPartition, former: Progress, cluster_id: str) -> None:
        """Raise ``ConfigError`` for a journal of another cluster, before its owner is fenced."""
        check_cluster(former, cluster_id, tp, follows=self._follows(former))

    def of(self, tp: TopicPartition, former: Progress | None, *, is_again: bool) -> Begin:
        """How it begins; ``is_again`` if another member has closed the log of this one's own assignment."""
        if is_again and former is None and self.topic_ids.was_claimed(tp):
            # The remaining records must not begin a new table.
            raise FencedError(f"the journal of {tp} is gone, as after the table was deleted")
        kafka = self.offsets.of(tp)
        start = self.start(tp, former, kafka)
        progress = self._progress(tp, former, start, kafka)
        if is_again:
            start = replace(start, skipped=0)  # it is known why they are in the table
        return Begin(start, progress, kafka.topic_id)

    def start(self, tp: TopicPartition, former: Progress | None, kafka: PartitionOffsets) -> Start:
        if self._follows(former):
            kafka = self.followed(tp, kafka)
        start = start_of(
            tp,
            former,
            kafka,
            first=self.first_offset(tp, kafka) if lacks_offset(former, kafka) else kafka.low,
            follows=self._follows(former),
            keeps_state=self.keeps_state,
        )
        return replace(start, is_set=kafka.is_set)

    def _follows(self, former: Progress | None) -> bool:
        """Whether the group's offset is to be followed: once for each text that the user sets."""
        return bool(self.follow_offsets) and (former is None or former.followed != self.follow_offsets)

    def _progress(self, tp: TopicPartition, former: Progress | None, start: Start, kafka: PartitionOffsets) -> Progress:
        """How far the partition is written as it begins; an id that Kafka does not give is the former one."""
        goes_on = former is not None and former.end == start.in_table
        return Progress(
            topic=tp.topic,
            partition=tp.partition,
            end=start.in_table,
            topic_id=kafka.topic_id or (former.topic_id if former and goes_on else ""),
            cluster_id=kafka.cluster_id or (former.cluster_id if former else ""),
            followed=self.follow_offsets or (former.followed if former else ""),
            series=(former.series if former and goes_on else "") or uuid4().hex[:8],
        )
