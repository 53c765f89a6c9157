"""Commits offsets to Kafka: the offsets where partitions begin, and the offsets up to which records are in the lake.

Each commit contains the connector's mark.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition
from quixstreams.kafka.consumer import BaseConsumer

from app.delivery.assignment import Assignment, Claimed
from app.errors import RetryableError
from app.journal.start_offset import Start
from app.kafka.questions import GroupInUseError, PartitionOffsets, commit, own_offset
from app.model import TopicPartition
from app.monitoring.metrics import Metrics
from app.timings import Timings

logger = logging.getLogger(__name__)

_AGAIN_SECONDS = 60.0  # after this time, all offsets are committed again, because a commit may have failed
_COMMITTING_STARTS = "committing the first offsets of partitions"


def log_starts(claims: Iterable[Claimed], metrics: Metrics) -> None:
    """Log the partitions that do not begin at the group's offset, and the reasons."""
    skipped = {claim.tp: claim.start.skipped for claim in claims if claim.start.skipped}
    if skipped:
        logger.warning(
            "%s records after the group's committed offset are skipped (%s): they are already in the table, as after a "
            "crash or a reset of offsets. To read them again, stop the connector, delete these rows, reset the "
            "offsets, and set FOLLOW_OFFSETS to a new value. Rows that you do not delete are then duplicates",
            f"{sum(skipped.values()):,}",
            ", ".join(f"{tp}: {count:,}" for tp, count in sorted(skipped.items())),
        )
    for claim in claims:
        if claim.start.remark:
            level = logging.ERROR if claim.start.is_loss else logging.WARNING
            logger.log(level, "%s: %s", claim.tp, claim.start.remark)
        if claim.start.is_loss:
            metrics.lost(f"{claim.tp}: {claim.start.remark}")


def mark_set_offsets(claims: Iterable[Claimed], consumers_commit: Callable[..., object]) -> None:
    """Commit the first offsets of partitions whose offsets a tool has set, before records are written.

    Otherwise the journal would be ahead of this offset after a crash. The next value of ``FOLLOW_OFFSETS`` would then
    follow this offset again.
    """
    offsets = [own_offset(*claim.tp, claim.start.offset) for claim in claims if claim.start.is_set]
    if offsets:
        commit(consumers_commit, offsets, _COMMITTING_STARTS)


def commit_where_partitions_begin(
    consumer: Consumer, starts: Iterable[tuple[TopicPartition, tuple[Start, PartitionOffsets]]]
) -> None:
    """Commit missing offsets, and correct offsets that would skip records, before quixstreams reads.

    The client of quixstreams begins at the group's offset. Without an offset, the client begins at the first record in
    Kafka, although the table may contain later records. After a crash, the offset of the state and of other sinks would
    be unknown. The offset of a deleted topic would skip records.

    Kafka accepts these offsets only if the group has no members. Otherwise its first member has already committed them.
    ``consumer`` must not have subscribed. ``starts`` contains the result of ``Member.would_begin`` for each partition.
    """
    commits: list[KafkaTopicPartition] = []
    would_skip = False
    for tp, (start, kafka) in starts:
        is_ahead = kafka.committed is not None and kafka.committed > start.offset
        if is_ahead or kafka.committed is None:
            commits.append(own_offset(*tp, start.offset))
            would_skip |= is_ahead
    if not commits:
        return
    try:
        commit(consumer.commit, commits, _COMMITTING_STARTS)
    except GroupInUseError as error:
        if would_skip:
            hint = "Stop all members once, then start them"
            raise RetryableError(_COMMITTING_STARTS, f"{error.cause}: the group has members", hint) from None
        logger.debug("%s", error)
    else:
        logger.info("the group begins at %s", ", ".join(f"{tp.topic}[{tp.partition}]: {tp.offset}" for tp in commits))


def mark_commits(consumer: BaseConsumer) -> Callable[..., Any]:
    """Make ``commit`` of a quixstreams consumer add the connector's mark. Return the new function."""
    unmarked = consumer.commit

    def marked(offsets: Sequence[KafkaTopicPartition], **options: Any) -> Any:
        return unmarked(offsets=[own_offset(tp.topic, tp.partition, tp.offset) for tp in offsets], **options)

    vars(consumer)["commit"] = marked
    return marked


class OffsetCommitter:
    """Commits the offsets of records in the lake, which Kafka's tools display. For the consumer's thread."""

    def __init__(self, client: Consumer, metrics: Metrics, timings: Timings) -> None:
        self._client = client
        self._metrics = metrics
        self._clock = timings.clock
        self._again_at = 0.0

    def commit(self, assignments: Sequence[Assignment], *, asynchronous: bool) -> None:
        """Commit new offsets. Once a minute, commit all offsets; therefore a failed commit needs no earlier retry."""
        offsets = {partition: offset for assignment in assignments for partition, offset in assignment.to_commit()}
        if offsets:
            self._metrics.committed({partition.tp: offset for partition, offset in offsets.items()})
        now = self._clock()
        if now >= self._again_at:
            claimed = (partition for assignment in assignments for partition in assignment.claimed)
            offsets = {partition: partition.copied for partition in claimed} | offsets
        if not offsets:
            return
        self._again_at = now + _AGAIN_SECONDS
        commits = [own_offset(*partition.tp, offset) for partition, offset in offsets.items()]
        try:
            self._client.commit(offsets=commits, asynchronous=asynchronous)
        except KafkaException as error:
            logger.warning("committing offsets of records in the lake: %s. Retrying in a minute", error.args[0].str())
        for partition, offset in offsets.items():
            partition.copied = offset
