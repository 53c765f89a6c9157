"""What Kafka answers about a topic-partition, and that no answer is not taken for one."""

from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition

from app.errors import RetryableError
from app.model import TopicPartition
from app.positions import KafkaPositions
from app.start_position import KafkaPosition

TP = TopicPartition("sensors", 3)
TIMED_OUT = KafkaException(KafkaError(KafkaError._TIMED_OUT))


class Kafka:
    """Consumer and admin client in one."""

    def __init__(self) -> None:
        self.committed_offset = 70
        self.committed_error: KafkaError | None = None
        self.watermarks: tuple[int, int] | None = (10, 100)
        self.topic_id: Any = "abc"
        self.refuse: Callable[[str], None] = lambda _: None

    def committed(self, partitions: list[KafkaTopicPartition], timeout: float) -> list[Any]:
        self.refuse("committed")
        assert [(asked.topic, asked.partition) for asked in partitions] == [TP]
        assert timeout > 0
        return [SimpleNamespace(offset=self.committed_offset, error=self.committed_error)]

    def get_watermark_offsets(
        self, partition: KafkaTopicPartition, timeout: float, *, cached: bool
    ) -> tuple[int, int] | None:
        self.refuse("watermarks")
        assert (partition.topic, partition.partition) == TP
        assert timeout > 0
        assert not cached, "what was true before the topic was made anew must not count"
        return self.watermarks

    def describe_topics(self, topics: Any, request_timeout: float) -> dict[str, Future[Any]]:
        answer: Future[Any] = Future()
        try:
            self.refuse("topic")
        except KafkaException as error:
            answer.set_exception(error)
        else:
            answer.set_result(SimpleNamespace(topic_id=self.topic_id))
        return {TP.topic: answer}


@pytest.fixture
def kafka() -> Kafka:
    return Kafka()


def asked(kafka: Kafka) -> KafkaPosition:
    return KafkaPositions(kafka, kafka).of(TP)


def failing(kafka: Kafka, question: str) -> None:
    def refuse(what: str) -> None:
        if what == question:
            raise TIMED_OUT

    kafka.refuse = refuse


def test_what_kafka_says(kafka: Kafka) -> None:
    assert asked(kafka) == KafkaPosition(committed=70, low=10, high=100, topic_id="abc")


def test_the_beginning_is_an_offset_too(kafka: Kafka) -> None:
    kafka.committed_offset = 0
    assert asked(kafka).committed == 0


def test_a_group_without_an_offset_has_none(kafka: Kafka) -> None:
    kafka.committed_offset = OFFSET_INVALID
    assert asked(kafka).committed is None


@pytest.mark.parametrize("question", ["committed", "watermarks"])
def test_no_answer_is_asked_for_again(kafka: Kafka, question: str) -> None:
    failing(kafka, question)
    with pytest.raises(RetryableError, match=r"asking Kafka for the offsets of sensors\[3\]: "):
        asked(kafka)


def test_an_error_beside_the_offset_is_no_group_without_one(kafka: Kafka) -> None:
    """It would begin at the latest record, and skip what is before."""
    kafka.committed_offset = OFFSET_INVALID
    kafka.committed_error = KafkaError(KafkaError.NOT_COORDINATOR)
    with pytest.raises(RetryableError, match=r"sensors\[3\]"):
        asked(kafka)


@pytest.mark.parametrize("watermarks", [None, (-1, 100), (10, -1001), (-1001, -1001)])
def test_watermarks_that_are_none_are_no_empty_topic(kafka: Kafka, watermarks: tuple[int, int] | None) -> None:
    kafka.watermarks = watermarks
    with pytest.raises(RetryableError, match=r"sensors\[3\]"):
        asked(kafka)


def test_an_id_that_is_not_told_is_empty_and_no_failure(kafka: Kafka) -> None:
    failing(kafka, "topic")
    assert asked(kafka) == KafkaPosition(committed=70, low=10, high=100, topic_id="")
    kafka.refuse = lambda _: None
    kafka.topic_id = None
    assert asked(kafka).topic_id == ""
