"""Reads the newest records of a topic, and how many come, without joining a consumer group."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from confluent_kafka import KafkaError
from confluent_kafka import TopicPartition as KafkaTopicPartition

from app.kafka.questions import GroupOffsets, failed, unanswered
from app.model import Message, TopicPartition

_ANSWER_SECONDS = 30.0
_AT_ONCE = 1_000
_WINDOWS = (timedelta(hours=1), timedelta(days=1), timedelta(days=7))


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest records by their timestamps, and the rate by the first of some windows that has any.

    Attributes:
        a_second: 0 where none came in the longest window.
        window: over which that is the average.
    """

    messages: list[Message]
    a_second: float
    window: timedelta


def newest(offsets: GroupOffsets, topic: str, count: int) -> Newest:
    """Reads them; ``offsets`` has a consumer that tells the ends of partitions.

    Raises:
        ConnectorError: Kafka does not answer, or refuses.
    """
    ends = {TopicPartition(topic, partition): end for partition, end in offsets.ends(topic).items()}
    lows = offsets.beginnings(topic)
    begins = {tp: max(lows[tp.partition], end - count) for tp, end in ends.items()}  # all may be of one partition
    found = _read(offsets.consumer, topic, {tp: begin for tp, begin in begins.items() if begin < ends[tp]})
    found.sort(key=lambda message: message.timestamp()[1])
    a_second, window = _rate(offsets, ends)
    return Newest(found[-count:], a_second, window)


def _read(consumer: Any, topic: str, begins: Mapping[TopicPartition, int]) -> list[Message]:
    consumer.assign([KafkaTopicPartition(*tp, begin) for tp, begin in begins.items()])
    left, found, give_up = {*begins}, list[Message](), time.monotonic() + _ANSWER_SECONDS
    while left:
        if time.monotonic() > give_up:
            raise unanswered(f"the newest records of {topic}", f"no end within {_ANSWER_SECONDS:.0f} s")
        for message in consumer.consume(_AT_ONCE, 1.0):
            error = message.error()
            if error is None:
                found.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                left.discard(TopicPartition(message.topic(), message.partition()))
            else:
                raise failed(f"the newest records of {topic}", error)
    return found


def _rate(offsets: GroupOffsets, ends: Mapping[TopicPartition, int]) -> tuple[float, timedelta]:
    for window in _WINDOWS:
        since = offsets.since(datetime.now(UTC) - window, ends)
        if came := sum(end - since[tp] for tp, end in ends.items()):
            return came / window.total_seconds(), window
    return 0.0, _WINDOWS[-1]
