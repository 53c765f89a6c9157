"""Sending records of the dead letter: each is acknowledged, or named in the error."""

from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException
from quixstreams.kafka import Producer

from app.errors import ConfigError, FatalError, RetryableError
from app.model import Rejected, TopicPartition
from app.parts.replay.command import Sender
from app.reason_texts import Reason
from tests.support.environment import load

TP = TopicPartition("readings", 3)
OF_GROUPS = [f"{prefix}repartition__{group}--readings--by-place" for prefix in ("", "acme-") for group in ("lake", "x")]

NESTED = "repartition__lake--repartition.readings.by-place--by-day"
OF_A_LONGER_GROUP = "repartition__lake--x--readings--by-place"


def rejected(offset: int, tp: TopicPartition = TP) -> Rejected:
    return Rejected(tp, offset, 1_700_000_000_000, b"k", b"v", None, Reason("no JSON"))


class Fate:
    """A producer with one answer: it raises it at once, or all deliveries end with it at a flush."""

    def __init__(self, answer: KafkaError | Exception | None = None) -> None:
        self._answer = answer
        self._waiting: list[Any] = []

    def produce(self, _topic: str, *, on_delivery: Any, **_message: object) -> None:
        if isinstance(self._answer, Exception):
            raise self._answer
        self._waiting.append(on_delivery)

    def flush(self, _timeout: float) -> int:
        for on_delivery in self._waiting:
            on_delivery(self._answer, None)
        self._waiting.clear()
        return 0


def send_one(producer: Sender) -> None:
    producer.send(rejected(7))
    producer.finish()


def sender(producer: Fate, *, workspace: str = "", to: str | None = None, also: str = "") -> Sender:
    topics = ["readings", "acme-readings", "acme-fixed", "other", *OF_GROUPS, NESTED, OF_A_LONGER_GROUP]
    settings = load(input=",".join(filter(None, ["readings", also])), CONSUMER_GROUP="lake")
    return Sender(cast(Producer, producer), topics, settings, workspace, to)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (KafkaError(KafkaError._MSG_TIMED_OUT), RetryableError),
        (KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), FatalError),
        (KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION)), FatalError),
        (BufferError(), RetryableError),
    ],
)
def test_a_record_that_fails_is_told(answer: KafkaError | Exception, error: type[Exception]) -> None:
    line = sender(Fate(answer))
    with pytest.raises(error, match="sending readings/3/7 to topic readings: "):
        send_one(line)
    assert line.acknowledged == 0


def test_topics_must_be_there_and_may_have_the_name_the_platform_gives_them() -> None:
    line = sender(Fate(), workspace="acme", to="fixed")
    line.send(rejected(7))
    assert line.acknowledged == 0
    line.finish()
    assert line.acknowledged == 1
    with pytest.raises(ConfigError, match=r"finding topic fixed: it does not exist\. Create it, or set another"):
        sender(Fate(), workspace="other", to="fixed")


@pytest.mark.parametrize(
    ("topic", "workspace", "is_sent"),
    [
        ("readings", "", True),
        ("acme-readings", "acme", True),
        ("readings", "acme", True),
        (OF_GROUPS[2], "acme", True),
        ("acme-readings", "", False),
        (OF_GROUPS[1], "", False),
        (OF_GROUPS[2], "", False),
        (NESTED, "", True),
        (OF_A_LONGER_GROUP, "", False),
    ],
)
def test_a_file_does_not_choose_the_topic(topic: str, workspace: str, is_sent: bool) -> None:
    """Without ``--to``, records go to topics that the connector reads."""
    line = sender(Fate(), workspace=workspace)
    record = rejected(7, TopicPartition(topic, 3))
    if is_sent:
        line.send(record)
        line.finish()
    else:
        with pytest.raises(ConfigError, match=rf"sending records to topic {topic}: .* Set the topic with --to"):
            line.send(record)
    assert line.acknowledged == is_sent


def test_a_table_of_several_topics_has_records_of_each() -> None:
    line = sender(Fate(), also="other")
    for topic in ("readings", "other"):
        line.send(rejected(7, TopicPartition(topic, 3)))
    line.finish()
    assert line.acknowledged == 2


def test_a_producer_that_may_not_write_is_told_at_the_end() -> None:
    class Refused(Fate):
        def flush(self, _timeout: float) -> int:
            raise KafkaException(KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED))

    with pytest.raises(FatalError, match="the user's rights"):
        send_one(sender(Refused()))
