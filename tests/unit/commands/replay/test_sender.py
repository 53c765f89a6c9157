"""Sending records of the dead letter: each is acknowledged, or named in the error."""

from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException
from quixstreams.kafka import Producer

from app.commands.replay.sender import Sender
from app.errors import ConfigError, FatalError, RetryableError
from app.model import Rejected, TopicPartition

TP = TopicPartition("readings", 3)


def rejected(offset: int, reason: str = "no JSON") -> Rejected:
    return Rejected(TP, offset, 1_700_000_000_000, b"k", b"v", None, reason)


class Fate:
    """A producer whose deliveries all end in one way, when it is flushed."""

    def __init__(self, error: KafkaError | None = None) -> None:
        self._error = error
        self._waiting: list[Any] = []

    def produce(self, _topic: str, *, on_delivery: Any, **_message: object) -> None:
        self._waiting.append(on_delivery)

    def flush(self, _timeout: float) -> int:
        for on_delivery in self._waiting:
            on_delivery(self._error, None)
        self._waiting.clear()
        return 0


class Refusing(Fate):
    """A producer that takes nothing."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._raised = error

    def produce(self, *_: object, **__: object) -> None:
        raise self._raised


def sender(producer: Fate, *, workspace: str = "", to: str | None = None) -> Sender:
    return Sender(cast(Producer, producer), ["readings", "acme-fixed"], workspace=workspace, to=to)


@pytest.mark.parametrize(
    ("code", "error"),
    [(KafkaError._MSG_TIMED_OUT, RetryableError), (KafkaError.MSG_SIZE_TOO_LARGE, FatalError)],
)
def test_a_delivery_that_fails_is_told_with_its_record(code: int, error: type[Exception]) -> None:
    line = sender(Fate(KafkaError(code)))
    line.send(rejected(7))
    with pytest.raises(error, match="sending readings/3/7 to topic readings: "):
        line.finish()
    assert line.acknowledged == 0


@pytest.mark.parametrize(
    ("refusal", "error", "told"),
    [
        (
            KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION)),
            FatalError,
            "sending readings/3/7 to topic readings",
        ),
        (BufferError(), RetryableError, "Kafka takes no more records"),
    ],
)
def test_what_the_client_refuses_at_once_is_told(refusal: Exception, error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        sender(Refusing(refusal)).send(rejected(7))


def test_topics_must_be_there_and_may_have_the_name_the_platform_gives_them() -> None:
    line = sender(Fate(), workspace="acme", to="fixed")
    line.send(rejected(7))
    assert line.acknowledged == 0
    line.finish()
    assert line.acknowledged == 1
    with pytest.raises(ConfigError, match=r"finding topic fixed: it does not exist\. Create it, or name another"):
        sender(Fate(), workspace="other", to="fixed")
