"""Translates errors of Kafka's client into the connector's errors, and decides which errors are retriable."""

import logging

from confluent_kafka import KafkaError, KafkaException
from quixstreams.exceptions import PartitionAssignmentError
from quixstreams.kafka.exceptions import KafkaConsumerException

from app.errors import ConnectorError, FatalError, RetryableError

logger = logging.getLogger(__name__)

FROM_LAST_COMMIT = "The next start continues from the last commit"
_CHECK_SIZE = "Check the largest message that the topic accepts (max.message.bytes)"
_ALLOW_WRITE = (
    "Allow Write on the topics that transform() uses. For Kafka older than 3.0, or MSK with IAM, also allow "
    "IdempotentWrite (kafka-cluster:WriteDataIdempotently) on the cluster"
)

# The coordinator is unavailable or moves, or the group rebalances: the connector can commit the offsets later, or the
# next owner reads the rows again.
PASSING_ERRORS = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,  # a new coordinator returns this error; other code detects deleted topics
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._TRANSPORT,
        KafkaError._WAIT_COORD,
        KafkaError._ALL_BROKERS_DOWN,
    }
)

REFUSED = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED})  # no right to read
_MAY_NOT_WRITE = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED})

_LASTING_CONSUMER_ERRORS = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, *REFUSED})


def of_rebalance(error: PartitionAssignmentError) -> Exception:
    """Return the error that the callback of a rebalance raised. quixstreams wraps this error without its text."""
    cause = error.__cause__
    if isinstance(cause, KafkaException) and cause.args[0].code() in PASSING_ERRORS:
        return RetryableError("joining the consumer group", cause.args[0].str())
    return cause if isinstance(cause, Exception) else error


def cannot_be_decompressed(error: Exception) -> bool:
    """Whether Kafka's client cannot decompress messages. The error repeats until the consumer seeks later offsets.

    With zstd, the client decompresses no more than ``receive.message.max.bytes``.
    """
    return isinstance(error, KafkaConsumerException) and error.code == KafkaError._BAD_COMPRESSION


def consuming_failed(error: Exception) -> bool:
    """Return whether the loop may continue after an error of the Kafka client. Raise an error that ends the process."""
    if not isinstance(error, KafkaConsumerException):
        return False
    if lasting_error := _lasting_error(error.error):
        raise lasting_error from None
    logger.warning("Kafka: %s; continuing", error.error.str())
    return True


def recovering_failed(error: KafkaConsumerException) -> ConnectorError:
    """Return the error that ends the process if the Kafka client failed while state was recovered."""
    return _lasting_error(error.error) or RetryableError("recovering the state of transform()", error.error.str())


def _lasting_error(error: KafkaError) -> ConnectorError | None:
    """Return the error that ends the process for an error of the Kafka client; ``None`` if a retry may help."""
    if error.code() in _LASTING_CONSUMER_ERRORS or error.fatal():
        return FatalError(
            "consuming from Kafka",
            error.str(),
            "Check that the topic still exists and that the user may read it and its consumer group",
        )
    if error.code() == KafkaError.INCONSISTENT_GROUP_PROTOCOL:
        return RetryableError(
            "joining the consumer group",
            f"{error.str()}: another program in the group uses another partition.assignment.strategy",
            "Stop that program, or set CONSUMER_GROUP to a separate group",
        )
    if error.code() == KafkaError._AUTO_OFFSET_RESET:
        return RetryableError(
            "consuming from Kafka",
            f"{error.str()}. The next records are deleted, or the topic was recreated",
            "The next start detects this and continues at the right offset",
        )
    return None


def error_of(error: Exception) -> KafkaError | None:
    """Return the error of Kafka's client in an exception; ``None`` if the exception contains no such error."""
    kafka_error = error.args[0] if isinstance(error, KafkaException) else getattr(error, "error", None)
    return kafka_error if isinstance(kafka_error, KafkaError) else None


def producing_failed(error: Exception) -> ConnectorError:
    """Return the error that ends the process if Kafka refused records of ``transform()`` or changes of its state."""
    doing = "sending records of transform(), or changes of its state"
    kafka_error = error_of(error)
    if kafka_error is None:
        return RetryableError(doing, str(error), FROM_LAST_COMMIT)
    if kafka_error.code() in PASSING_ERRORS or kafka_error.code() == KafkaError._MSG_TIMED_OUT:
        return RetryableError(doing, kafka_error.str(), FROM_LAST_COMMIT)
    return FatalError(doing, kafka_error.str(), _ALLOW_WRITE if kafka_error.code() in _MAY_NOT_WRITE else _CHECK_SIZE)
