"""Topics that were recreated since their partitions were claimed, and what asks for it."""

import pytest

from app.errors import ConnectorError, FatalError, RetryableError
from app.kafka.watch import KafkaWatch, TopicIds
from app.model import TopicPartition
from tests.support.waiting import wait_until

P0, P1 = TopicPartition("sensors", 0), TopicPartition("sensors", 1)


class Kafka:
    def __init__(self) -> None:
        self.topic_id = "one"
        self.asked = 0

    def ask(self, topic: str) -> str:
        assert topic == "sensors"
        self.asked += 1
        return self.topic_id


@pytest.fixture
def kafka() -> Kafka:
    return Kafka()


@pytest.fixture
def ids(kafka: Kafka) -> TopicIds:
    ids = TopicIds(kafka.ask)
    for tp in (P0, P1):
        ids.claimed(tp, "one")
    return ids


def test_the_same_topic_is_none_that_was_recreated(ids: TopicIds, kafka: Kafka) -> None:
    assert ids.recreated([P0, P1]) is None
    assert kafka.asked == 1, "once for all of its partitions"


def test_a_partition_that_was_claimed_later_does_not_hide_an_earlier_one(ids: TopicIds, kafka: Kafka) -> None:
    kafka.topic_id = "two"
    ids.claimed(P1, "two")
    assert ids.recreated([P1]) is None
    assert isinstance(ids.recreated([P1, P0]), RetryableError)


@pytest.mark.parametrize(("before", "now"), [("", "two"), ("one", ""), ("", "")])
def test_an_unknown_id_is_no_other_one(kafka: Kafka, before: str, now: str) -> None:
    ids = TopicIds(kafka.ask)
    ids.claimed(P0, before)
    kafka.topic_id = now
    assert ids.recreated([P0, P1]) is None


def test_what_is_found_from_time_to_time_ends_the_process() -> None:
    error = FatalError("looking", "it is another one")
    answers: list[Exception | None] = [None, RetryableError("asking", "no route to host"), OSError("odd"), error]

    def answer() -> ConnectorError | None:
        found = answers.pop(0)
        if found in (None, error):
            return error if found else None
        raise found

    watch = KafkaWatch([answer], seconds=0.001)
    assert watch.take_found() is None
    watch.start()
    watch.start()
    wait_until(lambda: not answers, "all answers are given")
    found: list[ConnectorError | None] = []

    def take() -> bool:
        found.append(watch.take_found())
        return found[-1] is not None

    wait_until(take, "the error")
    watch.stop()
    assert found[-1] is error
