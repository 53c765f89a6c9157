"""Commits where partitions begin, before quixstreams reads: its client knows only the group's offset.

Without an offset the client begins with the first record that Kafka has. After a crash nobody would know how far the
state and the other sinks of ``transform()`` are: the table may be ahead. The offset of a deleted topic would skip
records of the present one.
"""

import logging
from collections.abc import Iterable

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaTopicPartition

from app.errors import RetryableError
from app.journal.beginning import Start
from app.kafka.questions import GroupInUseError, PartitionOffsets, commit, own_offset
from app.model import TopicPartition

logger = logging.getLogger(__name__)

_DOING = "committing where partitions begin"


def commit_where_partitions_begin(
    consumer: Consumer, found: Iterable[tuple[TopicPartition, tuple[Start, PartitionOffsets]]]
) -> None:
    """Commit offsets for partitions that have none, and correct those that would skip records.

    Kafka takes offsets only while the group is empty. Else its first member has committed them already.
    ``consumer`` has not subscribed. ``found`` has what ``Takeover.look`` found of each partition of the input topics.
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
        commit(consumer.commit, commits, _DOING)
    except GroupInUseError as error:
        if would_skip:
            hint = "Stop all members once, then start them"
            raise RetryableError(_DOING, f"{error.cause}: the group has members", hint) from None
        logger.debug("%s", error)
    else:
        logger.info("the group begins at %s", ", ".join(f"{tp.topic}[{tp.partition}]: {tp.offset}" for tp in commits))
