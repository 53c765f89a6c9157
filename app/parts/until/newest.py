"""Reads the newest records of a topic, where they end, and how many come, without joining a consumer group."""

import time
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from confluent_kafka import KafkaError
from confluent_kafka import TopicPartition as KafkaTopicPartition
from quixstreams.kafka.exceptions import KafkaConsumerException

from app.errors import RetryableError
from app.kafka.errors import cannot_be_decompressed
from app.kafka.questions import GroupOffsets, failed, unanswered
from app.model import Message, TopicPartition

_ANSWER_SECONDS = 30.0
_AT_ONCE = 1_000
_POLL_SECONDS = 0.1  # the client waits this long for so many
_WINDOWS = (timedelta(hours=1), timedelta(days=1), timedelta(days=7))


def newest(offsets: GroupOffsets, topic: str, count: int) -> tuple[list[Message], float]:
    """Returns the newest records by their timestamps, and how many came a second in the first window that has any.

    That is 0 where none came in the longest one. ``offsets`` has a consumer that tells the ends of partitions.

    Raises:
        ConnectorError: Kafka does not answer, or refuses.
    """
    ends, lows = offsets.ends(topic), offsets.beginnings(topic)
    found: list[Message] = []
    for reach in (count, 8 * count, 64 * count):  # all may be of one partition, and offsets may have no record
        begins = {tp: max(lows[tp], end - reach) for tp, end in ends.items()}
        wanted = {tp: begin for tp, begin in begins.items() if begin < ends[tp]}
        try:
            found = _read(offsets.consumer, topic, wanted, ends, count)
        except RetryableError:
            if reach == count:
                raise
            break  # so many take too long
        if len(found) >= count or all(begin == lows[tp] for tp, begin in begins.items()):
            break
    found.sort(key=lambda message: message.timestamp()[1])
    return found[-count:], _rate(offsets, ends)


def readable_ends(
    offsets: GroupOffsets, topic: str, ends: Mapping[TopicPartition, int], until: datetime | None
) -> dict[TopicPartition, int]:
    """Returns the offset after the last record of each partition before these ends and a time; 0 without a record.

    Behind it there may be offsets without a record: of aborted transactions, or compacted. ``offsets`` as above.

    Raises:
        RetryableError: a transaction before the end is open, so nobody can read its records and those behind it.
        ConnectorError: Kafka does not answer, or refuses.
    """
    readable = offsets.ends(topic)
    if until is not None:
        ends = offsets.since(until, ends)
    for tp, end in sorted(ends.items()):
        if (first := readable[tp]) < end:
            cause = f"the transaction at offset {first} of {tp} is open: its records and later ones cannot be read yet"
            hint = (
                "It ends with its producer, or by its transaction.timeout.ms; kafka-transactions.sh lists hanging ones"
            )
            raise RetryableError(f"finding the end of this run in {topic}", cause, hint)
    lows, found = offsets.beginnings(topic), dict.fromkeys(ends, 0)
    reach, left = 1, {tp for tp, end in ends.items() if lows[tp] < end}
    while left:
        begins = {tp: max(lows[tp], ends[tp] - reach) for tp in left}
        broken: set[TopicPartition] = set()
        for message in _read(offsets.consumer, topic, begins, ends, 1, broken):
            found[TopicPartition(topic, message.partition())] = message.offset() + 1
        found |= {tp: ends[tp] for tp in broken}
        left = {tp for tp in left if not found[tp] and begins[tp] > lows[tp]}
        reach = max(1_000, 8 * reach)
    return found


def _read(
    consumer: Any,
    topic: str,
    begins: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    count: int,
    broken: set[TopicPartition] | None = None,
) -> list[Message]:
    """Reads the last records before the ends, so many of each partition.

    ``broken`` gets the partitions with records that the client cannot decompress; without it they are an error.
    """
    consumer.assign([KafkaTopicPartition(*tp, begin) for tp, begin in begins.items()])
    found = {tp: deque[Message](maxlen=count) for tp in begins}
    left, give_up = {*begins}, time.monotonic() + _ANSWER_SECONDS
    while left:
        if time.monotonic() > give_up:
            raise unanswered(f"the newest records of {topic}", f"no end within {_ANSWER_SECONDS:.0f} s")
        for message in consumer.consume(_AT_ONCE, _POLL_SECONDS):
            error = message.error()
            tp = TopicPartition(message.topic(), message.partition())
            if error is not None and broken is not None and cannot_be_decompressed(KafkaConsumerException(error=error)):
                broken.add(tp)
            elif error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise failed(f"the newest records of {topic}", error)
            if error is None and message.offset() < ends[tp]:
                found[tp].append(message)
            if error is not None or message.offset() >= ends[tp] - 1:
                left.discard(tp)
    return [message for each in found.values() for message in each]


def _rate(offsets: GroupOffsets, ends: Mapping[TopicPartition, int]) -> float:
    for window in _WINDOWS:
        since = offsets.since(datetime.now(UTC) - window, ends)
        if came := sum(end - since[tp] for tp, end in ends.items()):
            return came / window.total_seconds()
    return 0.0
