"""The lineage of a data file in its name: formed when a batch is staged, read back by whoever looks at the table."""

import hashlib
import re

from app.model import BatchPart, OffsetRange, TopicPartition

_MAX_TOPIC = 120  # leaves room for offsets and owner in a name of 255 bytes
_MAX_OFFSET = 2**63 - 1
_MAX_PARTITION = 2**31 - 1

# Tokens of earlier releases had 8 digits.
# Read from its end: no part after the topic can hold what separates it from the next, so there is one way only.
_NUMBER = "(?:0|[1-9][0-9]{0,18})"
_NAME = re.compile(
    r"data_(?P<topic>[A-Za-z0-9._-]{1,120}(?:~[0-9a-f]{8})?)"
    rf"-(?P<partition>{_NUMBER})_(?P<first>[0-9]{{19}})-(?P<last>{_NUMBER})"
    rf"_(?P<owner>[0-9a-f]{{24}}|[0-9a-f]{{8}})-(?P<number>{_NUMBER})\.parquet"
)


def file_name(part: BatchPart) -> str:
    """The name of a data file, unique for ever: offsets of the batch, the assignment's token, the batch's number.

    Topics are restricted to ``[A-Za-z0-9._-]`` by Kafka, so they need no escaping; long ones are cut and hashed.
    """
    offsets = part.offsets
    topic = topic_in_names(offsets.tp.topic)
    return f"data_{topic}-{offsets.tp.partition}_{offsets.first:019d}-{offsets.last}_{part.owner}-{part.number}.parquet"


def part_of(name: str) -> BatchPart | None:
    """The inverse of ``file_name``, but for long topics, which stay as the name has them.

    Returns:
        What the file holds a part of, or ``None`` for a name that the connector does not give.
    """
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    partition, first, last, number = (int(found[group]) for group in ("partition", "first", "last", "number"))
    if partition > _MAX_PARTITION or not first <= last <= _MAX_OFFSET or number > _MAX_OFFSET:
        return None
    return BatchPart(OffsetRange(TopicPartition(found["topic"], partition), first, last), found["owner"], number)


def topic_in_names(topic: str) -> str:
    """A topic as file names show it. Kafka allows no ``~``: a topic that is cut looks like no other."""
    if len(topic) <= _MAX_TOPIC:
        return topic
    return topic[:_MAX_TOPIC] + "~" + hashlib.sha256(topic.encode()).hexdigest()[:8]
