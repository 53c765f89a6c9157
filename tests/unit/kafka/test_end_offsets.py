"""How far partitions go, and whether Kafka answers at all."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from app.errors import RetryableError
from app.kafka.questions import end_offsets
from app.model import TopicPartition

P0, P1 = TopicPartition("sensors", 0), TopicPartition("sensors", 1)


class Admin:
    """Answers each question with the end of a partition or the code of an error."""

    def __init__(self, ends: dict[int, int] | None = None, error: int | None = None, *, has_topic: bool = True) -> None:
        self.ends = ends or {}
        self.error = error
        self.has_topic = has_topic

    def poll(self, seconds: float) -> None:
        """Nothing to log."""

    def list_offsets(self, asked: Any, request_timeout: float) -> dict[Any, Any]:
        return {tp: self._answer(self.ends.get(tp.partition)) for tp in asked}

    def list_topics(self, topic: str, timeout: float) -> Any:
        error = None if self.has_topic else KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
        return SimpleNamespace(topics={topic: SimpleNamespace(error=error)})

    def describe_cluster(self, request_timeout: float) -> Any:
        return self._answer(None if self.error else 1)

    def _answer(self, offset: int | None) -> Any:
        answer: Future[Any] = Future()
        if offset is None:
            answer.set_exception(KafkaException(KafkaError(self.error or KafkaError._TIMED_OUT)))
        else:
            answer.set_result(SimpleNamespace(offset=offset))
        return answer


def test_a_partition_without_a_leader_is_left_out() -> None:
    assert end_offsets(Admin({0: 7}), [P0, P1]) == {P0: 7}


def test_kafka_is_away_if_no_partition_has_an_answer() -> None:
    with pytest.raises(RetryableError, match="asking Kafka for the ends") as caught:
        end_offsets(Admin(), [P0, P1])
    assert caught.value.system == "Kafka"


def test_without_partitions_an_outage_is_noticed_too() -> None:
    assert end_offsets(Admin(), []) == {}
    assert end_offsets(Admin(error=KafkaError.CLUSTER_AUTHORIZATION_FAILED), []) == {}
    with pytest.raises(RetryableError) as caught:
        end_offsets(Admin(error=KafkaError._TRANSPORT), [])
    assert caught.value.system == "Kafka"


def test_a_topic_that_is_gone_is_no_outage_of_kafka() -> None:
    with pytest.raises(RetryableError, match="topic sensors does not exist") as caught:
        end_offsets(Admin(error=KafkaError._NOENT, has_topic=False), [P0, P1])
    assert caught.value.system == "topic"
