"""Errors of Kafka's producer, and of its consumer while state is recovered, as the user sees them."""

import pytest
from confluent_kafka import KafkaError, KafkaException
from quixstreams.checkpointing.exceptions import CheckpointProducerTimeout
from quixstreams.kafka.exceptions import KafkaConsumerException, KafkaProducerDeliveryError

from app.consumer.errors import translated
from app.errors import FatalError, RetryableError
from app.kafka.errors import consuming_failed, producing_failed, recovering_failed


@pytest.mark.parametrize(
    "error",
    [
        BufferError("Local: Queue full"),
        CheckpointProducerTimeout("'7' messages failed to be produced before the producer flush timeout"),
        KafkaProducerDeliveryError(KafkaError(KafkaError._MSG_TIMED_OUT)),
        KafkaProducerDeliveryError(KafkaError(KafkaError.NOT_COORDINATOR)),
    ],
)
def test_a_kafka_that_is_away_passes(error: Exception) -> None:
    seen = producing_failed(error)
    assert isinstance(seen, RetryableError)
    assert str(seen).startswith("sending records of transform(), or changes of its state: ")
    assert "The next start continues from the last commit" in str(seen)


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (KafkaProducerDeliveryError(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)), "Check the largest message"),
        (KafkaProducerDeliveryError(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)), "Allow Write on the topics"),
        (KafkaException(KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED, fatal=True)), "IdempotentWrite"),
    ],
)
def test_what_kafka_refuses_lasts(error: Exception, hint: str) -> None:
    seen = translated(error)
    assert isinstance(seen, FatalError)
    assert hint in seen.hint


def test_a_group_of_another_protocol_is_named() -> None:
    error = KafkaConsumerException(KafkaError(KafkaError.INCONSISTENT_GROUP_PROTOCOL))
    with pytest.raises(RetryableError, match=r"joining the consumer group: .*another program.*CONSUMER_GROUP"):
        consuming_failed(error)


@pytest.mark.parametrize(
    ("code", "kind", "doing"),
    [
        (KafkaError._TRANSPORT, RetryableError, "recovering the state of transform(): "),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, FatalError, "consuming from Kafka: "),
    ],
)
def test_an_error_while_state_is_recovered_ends_the_connector_without_a_promise_to_go_on(
    code: int, kind: type[Exception], doing: str, caplog: pytest.LogCaptureFixture
) -> None:
    seen = recovering_failed(KafkaConsumerException(KafkaError(code)))
    assert isinstance(seen, kind)
    assert str(seen).startswith(doing)
    assert "continuing" not in caplog.text
