"""What Kafka answers about topic-partitions and their ends, and that no answer is not taken for one."""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, Uuid
from confluent_kafka import TopicPartition as KafkaTopicPartition

from app.errors import FatalError, RetryableError
from app.kafka.questions import GroupInUseError, GroupOffsets, PartitionOffsets, commit, end_offsets, own_offset
from app.model import TopicPartition

TP = TopicPartition("sensors", 3)
P0, P1 = TopicPartition("sensors", 0), TopicPartition("sensors", 1)


class Kafka:
    def __init__(self) -> None:
        self.committed_offset = 70
        self.metadata: str | None = None
        self.committed_error: KafkaError | None = None
        self.watermarks: tuple[int, int] | None = (10, 100)
        self.topic_id: Any = "abc"
        self.cluster: str | None = "cluster"
        self.known = 4  # partitions that the client knows of
        self.refuse: Callable[[str], None] = lambda _: None

    def committed(self, partitions: list[KafkaTopicPartition], timeout: float) -> list[Any]:
        self.refuse("committed")
        assert [(asked.topic, asked.partition) for asked in partitions] == [TP]
        assert timeout > 0
        return [SimpleNamespace(offset=self.committed_offset, metadata=self.metadata, error=self.committed_error)]

    def get_watermark_offsets(
        self, partition: KafkaTopicPartition, timeout: float, *, cached: bool
    ) -> tuple[int, int] | None:
        self.refuse("watermarks")
        assert (partition.topic, partition.partition) == TP
        assert timeout > 0
        assert not cached, "what was true before the topic was recreated must not count"
        if partition.partition >= self.known:
            raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))
        return self.watermarks

    def list_topics(self, topic: str | None = None, *, timeout: float) -> Any:
        self.refuse("metadata" if topic else "cluster")
        assert topic in (TP.topic, None)
        if topic:
            self.known = 4
        return SimpleNamespace(cluster_id=self.cluster)

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


def asked(kafka: Kafka) -> PartitionOffsets:
    return GroupOffsets(kafka, kafka).of(TP)


def failing(kafka: Kafka, question: str, code: int = KafkaError._TIMED_OUT) -> None:
    def refuse(what: str) -> None:
        if what == question:
            raise KafkaException(KafkaError(code))

    kafka.refuse = refuse


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        ({}, {}),
        ({"committed_offset": 0}, {"committed": 0}),
        ({"committed_offset": OFFSET_INVALID}, {"committed": None, "is_set": False}),
        ({"metadata": own_offset(*TP, 70).metadata}, {"is_set": False}),
        ({"metadata": "another program's"}, {}),
        ({"metadata": own_offset(*TP, 80).metadata}, {}),  # a tool has kept the metadata
        ({"topic_id": Uuid(1, 2)}, {"topic_id": str(Uuid(1, 2))}),
        ({"topic_id": None}, {"topic_id": ""}),
        ({"topic_id": ""}, {"topic_id": ""}),
        ({"topic_id": Uuid(0, 0)}, {"topic_id": ""}),  # clients make it of none, and its text is not empty
        ({"cluster": None}, {"cluster_id": ""}),
        ({"known": 3}, {}),  # the client never subscribes, and would find out by itself a quarter of an hour later
    ],
    ids=str,
)
def test_what_kafka_says(kafka: Kafka, answers: dict[str, Any], found: dict[str, Any]) -> None:
    for name, answer in answers.items():
        setattr(kafka, name, answer)
    assert asked(kafka) == replace(PartitionOffsets(70, 10, 100, "abc", "cluster", is_set=True), **found)


@pytest.mark.parametrize("question", ["committed", "watermarks", "topic", "cluster"])
def test_no_answer_is_asked_for_again(kafka: Kafka, question: str) -> None:
    failing(kafka, question)
    with pytest.raises(RetryableError, match=r"asking Kafka for the (offsets of sensors\[3\]|id of .*): "):
        asked(kafka)


@pytest.mark.parametrize(
    ("question", "code"),
    [
        ("committed", KafkaError.GROUP_AUTHORIZATION_FAILED),
        ("watermarks", KafkaError.TOPIC_AUTHORIZATION_FAILED),
        ("topic", KafkaError.TOPIC_AUTHORIZATION_FAILED),
    ],
)
def test_a_refusal_is_no_matter_of_waiting(kafka: Kafka, question: str, code: int) -> None:
    failing(kafka, question, code)
    with pytest.raises(FatalError, match=r"Allow Read on the topic and on the consumer group"):
        asked(kafka)


@pytest.mark.parametrize("code", [KafkaError._UNSUPPORTED_FEATURE, KafkaError.UNSUPPORTED_VERSION])
def test_a_broker_too_old_for_ids_gives_none(kafka: Kafka, code: int) -> None:
    failing(kafka, "topic", code)
    assert asked(kafka).topic_id == ""


@pytest.mark.parametrize("watermarks", [None, (-1, 100), (10, -1001), (-1001, -1001)])
def test_watermarks_that_are_none_are_no_empty_topic(kafka: Kafka, watermarks: tuple[int, int] | None) -> None:
    kafka.watermarks = watermarks
    with pytest.raises(RetryableError, match=r"sensors\[3\]"):
        asked(kafka)


def test_an_error_beside_the_offset_is_no_group_without_one(kafka: Kafka) -> None:
    """It would begin at the latest record, and skip what is before."""
    kafka.committed_offset = OFFSET_INVALID
    kafka.committed_error = KafkaError(KafkaError.NOT_COORDINATOR)
    with pytest.raises(RetryableError, match=r"sensors\[3\]"):
        asked(kafka)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError.NOT_COORDINATOR, RetryableError),
        (KafkaError.UNKNOWN_MEMBER_ID, GroupInUseError),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, FatalError),
    ],
)
def test_offsets_that_kafka_refuses_to_take(code: int, kind: type[Exception]) -> None:
    def refuse(*, offsets: list[KafkaTopicPartition], asynchronous: bool) -> None:
        raise KafkaException(KafkaError(code))

    with pytest.raises(kind, match=r"^committing the first offsets of partitions: ") as error:
        commit(refuse, [own_offset(*TP, 70)], "committing the first offsets of partitions")
    assert type(error.value) is kind


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

    def list_topics(self, topic: str | None = None, *, timeout: float) -> Any:
        if topic is None and self.error:
            raise KafkaException(KafkaError(self.error))
        error = None if self.has_topic else KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
        return SimpleNamespace(topics={topic: SimpleNamespace(error=error)})

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
    with pytest.raises(RetryableError) as caught:
        end_offsets(Admin(error=KafkaError._TRANSPORT), [])
    assert caught.value.system == "Kafka"


def test_a_topic_that_is_gone_is_no_outage_of_kafka() -> None:
    with pytest.raises(RetryableError, match="topic sensors does not exist") as caught:
        end_offsets(Admin(error=KafkaError._NOENT, has_topic=False), [P0, P1])
    assert caught.value.system == "topic"


@pytest.mark.parametrize(
    ("moment", "milliseconds"),
    [
        (datetime(1900, 1, 1, tzinfo=UTC), 0),
        (datetime(2026, 11, 1, microsecond=1_000, tzinfo=UTC), 1_793_491_200_001),
        (datetime(2026, 11, 1, microsecond=1_001, tzinfo=UTC), 1_793_491_200_002),
    ],
)
def test_a_time_is_rounded_up_and_not_negative(moment: datetime, milliseconds: int) -> None:
    """Kafka takes no negative time but its words: -1 is the end."""
    asked = list[int]()

    def offsets_for_times(tps: list[KafkaTopicPartition], timeout: float) -> list[Any]:
        asked.extend(tp.offset for tp in tps)
        return [SimpleNamespace(topic=tp.topic, partition=tp.partition, offset=7, error=None) for tp in tps]

    offsets = GroupOffsets(SimpleNamespace(offsets_for_times=offsets_for_times), admin=None)
    assert offsets.since(moment, {P0: 100}) == {P0: 7}
    assert asked == [milliseconds]
