"""Topics that were recreated since their partitions were claimed, and what asks for it."""

import threading

import pytest

from app.errors import ConnectorError, FatalError, RetryableError
from app.journal.kafka_watch import KafkaWatch, TopicIds
from app.model import TopicPartition
from tests.support.waiting import wait_for, wait_until

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
    assert ids.is_same(P0)


def test_another_id_is_another_topic(ids: TopicIds, kafka: Kafka) -> None:
    kafka.topic_id = "two"
    assert isinstance(ids.recreated([P0]), RetryableError)
    assert ids.is_same(P0) is False


def test_a_partition_that_was_claimed_later_does_not_hide_an_earlier_one(ids: TopicIds, kafka: Kafka) -> None:
    kafka.topic_id = "two"
    ids.claimed(P1, "two")
    assert ids.recreated([P1]) is None
    assert ids.recreated([P1, P0]) is not None


@pytest.mark.parametrize(("before", "now"), [("", "two"), ("one", ""), ("", "")])
def test_an_unknown_id_is_no_other_one(kafka: Kafka, before: str, now: str) -> None:
    ids = TopicIds(kafka.ask)
    ids.claimed(P0, before)
    kafka.topic_id = now
    assert ids.recreated([P0, P1]) is None
    assert ids.is_same(P0) is None


def _watch(*answers: ConnectorError | Exception | None) -> tuple[KafkaWatch, threading.Event]:
    left, done = list(answers), threading.Event()

    def answer() -> ConnectorError | None:
        found = left.pop(0) if left else None
        if not left:
            done.set()
        if isinstance(found, (FatalError, type(None))):
            return found
        raise found

    return KafkaWatch([answer], seconds=0.001), done


def test_what_is_found_from_time_to_time_ends_the_process() -> None:
    error = FatalError("looking", "it is another one")
    watch, done = _watch(None, RetryableError("asking", "no route to host"), OSError("odd"), error)
    watch.start()
    watch.start()
    wait_for(done, "all answers are given")

    def is_found() -> bool:
        try:
            watch.raise_found()
        except FatalError as found:
            return found is error
        return False

    wait_until(is_found, "the error is raised")
    watch.stop()


def test_where_nothing_is_found_all_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    watch, done = _watch(None, RetryableError("asking", "no route to host"), None)
    watch.start()
    wait_for(done, "all answers are given")
    watch.raise_found()
    watch.stop()
    assert caplog.records == []
