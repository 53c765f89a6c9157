"""Kafka within this process, for ``python main.py try`` and ``check``: nothing leaves it.

The broker of ``try`` is the one that librdkafka has for its own tests. Its topics count as having one partition.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from confluent_kafka import Producer
from quixstreams.context import message_context
from quixstreams.dataframe import StreamingDataFrame
from quixstreams.models import Topic, TopicAdmin, TopicConfig, TopicManager
from quixstreams.sinks import BaseSink

from app.delivery.claimer import Group
from app.kafka.questions import GroupOffsets, PartitionOffsets
from app.kafka.watch import KafkaWatch, TopicIds
from app.model import TopicPartition

_ANY_TOPIC = {"retention.ms": "604800000", "retention.bytes": "-1", "cleanup.policy": "delete"}
_ANSWER_SECONDS = 30.0
# Of a partition, the broker keeps 5 MB and 100,000 messages. What group_by() sends on may be longer than the input.
_PORTION, _PORTION_BYTES = 10_000, 500_000
MOST_BYTES = 4_000_000  # of a message


@dataclass(frozen=True, slots=True)
class Sent:
    """A record of ``transform()`` for another place than the table: ``to`` a topic, or the class of a sink.

    ``topic`` and ``offset`` are of the record that was processed.
    """

    topic: str
    offset: int
    to: str
    key: Any
    value: Any


class Record(NamedTuple):
    """A record as Kafka has it; ``timestamp`` in milliseconds, above 0."""

    value: bytes | None
    key: bytes | None
    timestamp: int
    headers: list[tuple[str, bytes]] | None


OnSent = Callable[[Sent], None]


class OfflineBroker:
    """A broker in this process, which ends with this object; ``address`` is for clients in this process."""

    def __init__(self) -> None:
        self._producer = Producer(
            {"test.mock.num.brokers": 1, "bootstrap.servers": "", "message.max.bytes": 2 * MOST_BYTES, "log_level": 0}
        )
        (broker,) = self._producer.list_topics(timeout=_ANSWER_SECONDS).brokers.values()
        self.address = f"{broker.host}:{broker.port}"

    def create(self, topic: str) -> None:
        self._producer.list_topics(topic, _ANSWER_SECONDS)

    def produce(self, topic: str, records: Sequence[Record]) -> Iterator[int]:
        """Put records into partition 0 of a topic; their offsets begin at 0.

        Yields how many have come, a portion at a time: each is to be consumed before the next one is asked for.
        """
        number = size = 0
        for value, key, timestamp, headers in records:
            self._producer.produce(topic, value, key, 0, timestamp=timestamp, headers=headers)
            number, size = number + 1, size + len(value or b"") + len(key or b"")
            if number >= _PORTION or size >= _PORTION_BYTES:
                self._producer.flush(_ANSWER_SECONDS)
                yield number
                number = size = 0
        self._producer.flush(_ANSWER_SECONDS)
        yield number


class AnyTopic(TopicAdmin):
    """Each topic exists, with so many partitions; no broker is asked."""

    def __init__(self, partitions: int) -> None:
        super().__init__("")
        self._partitions = partitions

    def inspect_topics(self, topic_names: list[str], timeout: float = 30) -> dict[str, TopicConfig | None]:  # noqa: ARG002 - as in TopicAdmin
        return {name: TopicConfig(self._partitions, 1, dict(_ANY_TOPIC)) for name in topic_names}


class OfflineTopics(TopicManager):
    """All topics exist. Records for them are passed to ``on_sent``, beside the broker that gets them."""

    def __init__(self, broker: OfflineBroker, group: str, on_sent: OnSent) -> None:
        super().__init__(AnyTopic(1), group)
        self._broker = broker
        self._on_sent = on_sent

    def topic(self, *arguments: Any, **named: Any) -> Topic:
        return self._noting(super().topic(*arguments, **named))

    def register(self, topic: Topic) -> Topic:
        return self._noting(super().register(topic))

    def repartition_topic(self, *arguments: Any, **named: Any) -> Topic:
        return self._noting(super().repartition_topic(*arguments, **named))

    def _noting(self, topic: Topic) -> Topic:
        self._broker.create(topic.name)
        serialize, on_sent = topic.row_serialize, self._on_sent

        def row_serialize(row: Any, key: Any) -> Any:
            serialized = serialize(row, key)  # raises for a record that cannot be serialized
            on_sent(_sent(topic.name, key, row.value))
            return serialized

        vars(topic)["row_serialize"] = row_serialize
        return topic


class _NothingCommitted(GroupOffsets):
    """Each partition begins with its first record, and the topics are always the same."""

    def __init__(self) -> None:
        """Asks no broker."""

    def of(self, tp: TopicPartition) -> PartitionOffsets:  # noqa: ARG002 - as in GroupOffsets
        return PartitionOffsets(committed=None, low=0, high=sys.maxsize, topic_id="")

    def topic_id(self, topic: str) -> str:  # noqa: ARG002
        return ""

    def cluster_id(self) -> str:
        return ""


def offline_group(name: str) -> Group:
    """A consumer group that nobody else is in."""
    offsets = _NothingCommitted()
    return Group(name, offsets, TopicIds(offsets.topic_id), KafkaWatch())


@contextmanager
def without_other_sinks(on_sent: OnSent) -> Iterator[None]:
    """Pass the records for other sinks of ``transform()`` to ``on_sent``: those would write to their destinations."""
    attach = StreamingDataFrame.sink

    def note(dataframe: StreamingDataFrame, sink: BaseSink) -> None:
        name = type(sink).__name__
        dataframe.apply(lambda value, key, *_: on_sent(_sent(name, key, value)), metadata=True)  # a branch, as there

    StreamingDataFrame.sink = note  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        StreamingDataFrame.sink = attach  # type: ignore[method-assign]


def _sent(to: str, key: Any, value: Any) -> Sent:
    context = message_context()
    return Sent(context.topic, context.offset, to, key, value)
