"""Where partitions begin is committed before anything is read."""

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from app.consumer.commits import commit_where_partitions_begin
from app.errors import FatalError, RetryableError
from app.journal.start_offset import Start
from app.kafka.questions import PartitionOffsets, own_offset
from app.model import TopicPartition

P0 = TopicPartition("sensors", 0)


class Kafka:
    def __init__(self) -> None:
        self.found: dict[TopicPartition, tuple[Start, PartitionOffsets]] = {}
        self.committed: dict[TopicPartition, int] = {}
        self.error: KafkaError | None = None

    def has(self, tp: TopicPartition, start: int, *, committed: int | None, low: int = 0) -> None:
        self.found[tp] = Start(start), PartitionOffsets(committed, low, 100, "id")

    def commit(self, offsets: list[Any], asynchronous: bool) -> None:
        if self.error:
            raise KafkaException(self.error)
        assert not asynchronous
        assert all(tp.metadata == own_offset(tp.topic, tp.partition, tp.offset).metadata for tp in offsets)
        self.committed |= {TopicPartition(tp.topic, tp.partition): tp.offset for tp in offsets}

    def begin(self) -> dict[TopicPartition, int]:
        consumer: Any = self
        commit_where_partitions_begin(consumer, sorted(self.found.items(), key=lambda each: each[0]))
        return self.committed


@pytest.fixture
def kafka() -> Kafka:
    return Kafka()


@pytest.mark.parametrize(
    ("start", "committed", "low", "begins"),
    [
        (40, None, 0, {P0: 40}),  # the end of the log, or of the topic
        (0, None, 0, {P0: 0}),  # the client begins there by itself, but not after a crash: the log may be ahead
        (0, 40, 0, {P0: 0}),  # an offset that would skip records, as of a deleted topic
        (40, 40, 0, {}),
        (60, 40, 60, {}),  # records are gone, which the claim tells
    ],
)
def test_an_offset_is_committed_where_there_is_none_or_where_it_would_skip_records(
    kafka: Kafka, start: int, committed: int | None, low: int, begins: dict[TopicPartition, int]
) -> None:
    kafka.has(P0, start, committed=committed, low=low)
    assert kafka.begin() == begins


def test_a_group_with_members_has_its_offsets(kafka: Kafka) -> None:
    kafka.has(P0, 40, committed=None)
    kafka.error = KafkaError(KafkaError.UNKNOWN_MEMBER_ID)
    assert kafka.begin() == {}


@pytest.mark.parametrize(
    ("start", "committed", "code", "kind", "told"),
    [
        (0, 40, KafkaError.UNKNOWN_MEMBER_ID, RetryableError, "members"),  # else it would skip records
        (40, None, KafkaError.GROUP_AUTHORIZATION_FAILED, FatalError, "."),
        (40, None, KafkaError._TRANSPORT, RetryableError, "."),
    ],
)
def test_a_commit_that_fails_ends_the_start(
    kafka: Kafka, start: int, committed: int | None, code: int, kind: type[Exception], told: str
) -> None:
    kafka.has(P0, start, committed=committed)
    kafka.error = KafkaError(code)
    with pytest.raises(kind, match=told):
        kafka.begin()
