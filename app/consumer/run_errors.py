"""Errors of functions in ``transform()`` that are not errors of a record: they end the process."""

import logging

from confluent_kafka import KafkaException
from quixstreams.checkpointing.exceptions import CheckpointConsumerCommitError, CheckpointProducerTimeout
from quixstreams.checkpointing.exceptions import InvalidStoredOffset as InvalidStoredOffsetError
from quixstreams.exceptions import PartitionAssignmentError, QuixException
from quixstreams.kafka.exceptions import KafkaConsumerException, KafkaProducerDeliveryError
from quixstreams.state.exceptions import StateTransactionError, StoreTransactionFailed

from app.consumer.user_code import at_line_of
from app.errors import ConnectorError, FatalError, RetryableError
from app.kafka.errors import FROM_LAST_COMMIT, of_rebalance, producing_failed, recovering_failed
from app.kafka.questions import not_committed

logger = logging.getLogger(__name__)

# Errors of an earlier record's output, of the framework, or of a full producer queue; not of the current record.
NOT_OF_THE_RECORD = (ConnectorError, KafkaProducerDeliveryError, StateTransactionError, BufferError)
_NEXT_START = "LOGLEVEL=DEBUG shows its message. The next start reads again what is not committed"
_TOO_LATE = (InvalidStoredOffsetError, StoreTransactionFailed, StateTransactionError)


def ended(error: BaseException) -> FatalError:
    """For an error that only the end of the process answers."""
    did = f"raised {type(error).__name__}"
    if isinstance(error, SystemExit):
        did = f"called sys.exit({error.code if isinstance(error.code, int) else '…'})"
    return FatalError("running transform()", f"it {did}{at_line_of(error)}")


def translated(error: Exception) -> ConnectorError:
    if isinstance(error, PartitionAssignmentError):
        error = of_rebalance(error)
    if isinstance(error, ConnectorError):
        return error
    if isinstance(error, CheckpointProducerTimeout | KafkaProducerDeliveryError | BufferError):
        return producing_failed(error)
    if isinstance(error, CheckpointConsumerCommitError | KafkaException):
        found = error.error if isinstance(error, CheckpointConsumerCommitError) else error.args[0]
        return not_committed(found, "committing offsets")
    if isinstance(error, KafkaConsumerException):
        return recovering_failed(error)
    if isinstance(error, _TOO_LATE):  # partitions were lost while a checkpoint was open
        return RetryableError("consuming", f"{error!r}", FROM_LAST_COMMIT)
    doing = "running quixstreams" if isinstance(error, QuixException) else "running transform() or a sink of it"
    logger.debug("%s", doing, exc_info=error)  # its message may quote a record
    return FatalError(doing, f"{type(error).__name__}{at_line_of(error)}", _NEXT_START)
