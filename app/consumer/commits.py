"""What is committed to Kafka: where partitions begin, and how far they are in the lake, as the log says.

All commits carry the connector's mark.
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

_AGAIN_SECONDS = 60.0  # a commit that failed is repeated then, if no later one went before
_COMMITTING_BEGINNINGS = "committing where partitions begin"


def log_starts(claims: Iterable[Claimed], metrics: Metrics) -> None:
    """Log where partitions begin that do not begin at the group's offset, and why."""
    skipped = {claim.tp: claim.start.skipped for claim in claims if claim.start.skipped}
    if skipped:
        logger.warning(
            "%s records after the group's committed offset are in the table already (%s), as after a crash or when "
            "offsets were reset by hand: skipped. To read them again on purpose, stop, set the offsets back and set "
            "FOLLOW_OFFSETS to a new text; they are then in the table twice unless deleted there first",
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
    """Commit the beginnings of partitions whose offsets a tool has set, before anything is written.

    Else a crash would leave such an offset behind the journal, and the next text would follow it again.
    """
    offsets = [own_offset(*claim.tp, claim.start.offset) for claim in claims if claim.start.is_set]
    if offsets:
        commit(consumers_commit, offsets, _COMMITTING_BEGINNINGS)


def commit_where_partitions_begin(
    consumer: Consumer, found: Iterable[tuple[TopicPartition, tuple[Start, PartitionOffsets]]]
) -> None:
    """Commit offsets for partitions that have none, and correct those that would skip records; then quixstreams reads.

    Its client knows only the group's offset. Without one it begins with the first record that Kafka has: after a crash
    nobody would know how far the state and the other sinks of ``transform()`` are, for the table may be ahead. The
    offset of a deleted topic would skip records of the present one.

    Kafka takes offsets only while the group is empty. Else its first member has committed them already.
    ``consumer`` has not subscribed. ``found`` has what ``Member.would_begin`` returns for each partition.
    """
    commits: list[KafkaTopicPartition] = []
    would_skip = False
    for tp, (start, kafka) in found:
        is_ahead = kafka.committed is not None and kafka.committed > start.offset
        if is_ahead or kafka.committed is None:
            commits.append(own_offset(*tp, start.offset))
            would_skip |= is_ahead
    if not commits:
        return
    try:
        commit(consumer.commit, commits, _COMMITTING_BEGINNINGS)
    except GroupInUseError as error:
        if would_skip:
            hint = "Stop all members once, then start them"
            raise RetryableError(_COMMITTING_BEGINNINGS, f"{error.cause}: the group has members", hint) from None
        logger.debug("%s", error)
    else:
        logger.info("the group begins at %s", ", ".join(f"{tp.topic}[{tp.partition}]: {tp.offset}" for tp in commits))


def mark_commits(consumer: BaseConsumer) -> Callable[..., Any]:
    """Let a consumer of quixstreams commit offsets with the connector's mark; returns its function for that."""
    unmarked = consumer.commit

    def marked(offsets: Sequence[KafkaTopicPartition], **how: Any) -> Any:
        return unmarked(offsets=[own_offset(each.topic, each.partition, each.offset) for each in offsets], **how)

    vars(consumer)["commit"] = marked
    return marked


class Copies:
    """Copies to Kafka how far partitions are in the lake, for people and their tools. For the consumer's thread."""

    def __init__(self, client: Consumer, metrics: Metrics, timings: Timings) -> None:
        self._client = client
        self._metrics = metrics
        self._clock = timings.clock
        self._again_at = 0.0

    def copy(self, assignments: Sequence[Assignment], *, asynchronous: bool) -> None:
        """Commit what is news, and everything once a minute; a commit needs no answer."""
        offsets = {each: offset for some in assignments for each, offset in some.to_commit()}
        if offsets:
            self._metrics.committed({each.tp: offset for each, offset in offsets.items()})
        now = self._clock()
        if now >= self._again_at:
            offsets = {each: each.copied for some in assignments for each in some.claimed} | offsets
        if not offsets:
            return
        self._again_at = now + _AGAIN_SECONDS
        commits = [own_offset(*each.tp, offset) for each, offset in offsets.items()]
        try:
            self._client.commit(offsets=commits, asynchronous=asynchronous)
        except KafkaException as error:
            logger.warning("offsets of what is in the lake already are not committed (%s)", error.args[0].str())
        for each, offset in offsets.items():
            each.copied = offset
