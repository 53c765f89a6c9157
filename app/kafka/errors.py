"""Errors of Kafka's client: which are retriable, and which connector error each becomes."""

import logging

from confluent_kafka import KafkaError, KafkaException
from quixstreams.exceptions import PartitionAssignmentError
from quixstreams.kafka.exceptions import KafkaConsumerException

from app.errors import ConnectorError, FatalError, RetryableError

logger = logging.getLogger(__name__)

FROM_LAST_COMMIT = "The next start goes on from the last commit"
_LET_IT_SEND = "Check the largest message that the topic takes"
_LET_IT_WRITE = (
    "Allow Write on the topics that are sent to, and where Kafka is older than 3.0, or MSK with IAM, IdempotentWrite "
    "(kafka-cluster:WriteDataIdempotently) on the cluster"
)

# The coordinator is away or moves, or a rebalance is on: offsets can be committed later, or the next owner reads the
# rows again.
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
        KafkaError.UNKNOWN_TOPIC_OR_PART,  # to a new coordinator; that a topic is gone shows elsewhere
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._TRANSPORT,
        KafkaError._WAIT_COORD,
        KafkaError._ALL_BROKERS_DOWN,
    }
)

REFUSED = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED})  # to read
_MAY_NOT_WRITE = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED})

_LASTING_CONSUMER_ERRORS = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, *REFUSED})


def of_rebalance(error: PartitionAssignmentError) -> Exception:
    """The error that the callback of a rebalance raised; the framework wraps it without its text."""
    cause = error.__cause__
    if isinstance(cause, KafkaException) and cause.args[0].code() in PASSING_ERRORS:
        return RetryableError("joining the consumer group", cause.args[0].str())
    return cause if isinstance(cause, Exception) else error


def cannot_be_decompressed(error: Exception) -> bool:
    """Whether Kafka's client cannot decompress messages: it repeats the error until the consumer seeks behind them.

    With zstd it decompresses no more than ``receive.message.max.bytes``.
    """
    return isinstance(error, KafkaConsumerException) and error.code == KafkaError._BAD_COMPRESSION


def consuming_failed(error: Exception) -> bool:
    """Whether the loop may go on after an error of the Kafka client; raises the error to end with."""
    if not isinstance(error, KafkaConsumerException):
        return False
    if ending := _ending(error.error):
        raise ending from None
    logger.warning("Kafka: %s; going on", error.error.str())
    return True


def recovering_failed(error: KafkaConsumerException) -> ConnectorError:
    """The error to end with after an error of the Kafka client while state was recovered: there is no retry."""
    return _ending(error.error) or RetryableError("recovering the state of transform()", error.error.str())


def _ending(error: KafkaError) -> ConnectorError | None:
    """The error to end with after an error of the Kafka client; ``None`` if it is retriable."""
    if error.code() in _LASTING_CONSUMER_ERRORS or error.fatal():
        return FatalError(
            "consuming from Kafka",
            error.str(),
            "Check that the topic still exists and that the user may read it and its consumer group",
        )
    if error.code() == KafkaError.INCONSISTENT_GROUP_PROTOCOL:
        return RetryableError(
            "joining the consumer group",
            f"{error.str()}: another program in it shares out partitions in another way",
            "Stop that program, or set CONSUMER_GROUP to a group of its own",
        )
    if error.code() == KafkaError._AUTO_OFFSET_RESET:
        return RetryableError(
            "consuming from Kafka",
            f"{error.str()}. The next records are gone, or the topic was recreated",
            "The next start finds out and goes on from the right place",
        )
    return None


def error_of(error: Exception) -> KafkaError | None:
    """The error of Kafka's client in an exception; one that a record cannot be serialized has none."""
    found = error.args[0] if isinstance(error, KafkaException) else getattr(error, "error", None)
    return found if isinstance(found, KafkaError) else None


def producing_failed(error: Exception) -> ConnectorError:
    """The error to end with if Kafka refused records that ``transform()`` produces, or changes of its state."""
    doing = "sending what transform() produces, or the changes of its state"
    kafka_error = error_of(error)
    if kafka_error is None:
        return RetryableError(doing, str(error), FROM_LAST_COMMIT)
    if kafka_error.code() in PASSING_ERRORS or kafka_error.code() == KafkaError._MSG_TIMED_OUT:
        return RetryableError(doing, kafka_error.str(), FROM_LAST_COMMIT)
    return FatalError(doing, kafka_error.str(), _LET_IT_WRITE if kafka_error.code() in _MAY_NOT_WRITE else _LET_IT_SEND)
