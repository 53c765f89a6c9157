"""Errors of Kafka's producer, and of its consumer while state is recovered, as the user sees them."""

import pytest
from confluent_kafka import KafkaError
from quixstreams.checkpointing.exceptions import CheckpointProducerTimeout
from quixstreams.kafka.exceptions import KafkaConsumerException, KafkaProducerDeliveryError

from app.errors import FatalError, RetryableError
from app.kafka.errors import producing_failed, recovering_failed


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
    assert str(seen).startswith("sending what transform() produces, or the changes of its state: ")
    assert "The next start goes on from the last commit" in str(seen)


@pytest.mark.parametrize("code", [KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.MSG_SIZE_TOO_LARGE])
def test_what_kafka_refuses_lasts(code: int) -> None:
    seen = producing_failed(KafkaProducerDeliveryError(KafkaError(code)))
    assert isinstance(seen, FatalError)
    assert "Check the user's rights on the topic, and the largest message it takes" in str(seen)


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
    assert "going on" not in caplog.text
