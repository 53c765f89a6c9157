"""Translates errors of ``transform()`` and of quixstreams: a record is refused, or the process ends."""

import logging
import sysconfig
from pathlib import Path
from traceback import walk_tb
from types import FrameType
from typing import Any

from confluent_kafka import KafkaException
from quixstreams.checkpointing.exceptions import CheckpointConsumerCommitError, CheckpointProducerTimeout
from quixstreams.checkpointing.exceptions import InvalidStoredOffset as InvalidStoredOffsetError
from quixstreams.exceptions import PartitionAssignmentError, QuixException
from quixstreams.kafka.exceptions import KafkaConsumerException, KafkaProducerDeliveryError
from quixstreams.models import Row as FrameworkRow
from quixstreams.state.exceptions import StateTransactionError, StoreTransactionFailed

from app.bad_records.refusals import HINT_TRANSFORM, LONGEST_REASON, NotARowError, NullValueError, Refusal, not_written
from app.errors import ConnectorError, FatalError, RetryableError
from app.kafka.errors import FROM_LAST_COMMIT, error_of, of_rebalance, producing_failed, recovering_failed
from app.kafka.questions import not_committed
from app.model import Message, Row, TopicPartition
from app.reason_texts import Reason, reason_of, shown

logger = logging.getLogger(__name__)

ROOT = Path(__file__).resolve().parents[2]
# Errors that the current record does not cause, but an earlier record's output, quixstreams, or a full queue.
NOT_OF_THE_RECORD = (ConnectorError, KafkaProducerDeliveryError, StateTransactionError, BufferError)

_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
# The connector's own packages that call the user's code, or that quixstreams calls.
_OWN = ("app.consumer.", "app.parts.", "app.service.")
_NEXT_START = "LOGLEVEL=DEBUG logs its message. The next start reads records again that are not committed"
_TOO_LATE = (InvalidStoredOffsetError, StoreTransactionFailed, StateTransactionError)


def not_processed(error: Exception, row: FrameworkRow, message: Message | None) -> Refusal:
    """Returns the refusal of a record for which ``transform()`` failed or returned no row.

    ``row`` is the record that ``transform()`` received. ``message`` contains only this record, or is ``None``.
    """
    if isinstance(error, NullValueError) and row.value is not None:
        error = NullValueError("transform() returned null for it, like a function without a return statement")
    if isinstance(error, NotARowError):
        reason, hint = reason_of(error), error.hint
    else:
        raised = Reason("transform() raised ").also(type(error).__name__, shown(error, LONGEST_REASON))
        reason = raised.also(at_line_of(error))
        hint = HINT_TRANSFORM
    value: Any = row.value  # may have any type
    ours = Row(value, row.key, row.timestamp, row.offset, row.headers, message)
    return not_written(reason, ours, TopicPartition(row.topic, row.partition), hint)


def ended(error: BaseException) -> FatalError:
    """Returns the connector's error for an exception that must end the process."""
    cause = f"raised {type(error).__name__}"
    if isinstance(error, SystemExit):
        cause = f"called sys.exit({error.code if isinstance(error.code, int) else '…'})"
    return FatalError("running transform()", f"it {cause}{at_line_of(error)}")


def translated(error: Exception) -> ConnectorError:
    cause: BaseException | None = error
    while isinstance(cause, PartitionAssignmentError | KafkaException):
        cause = cause.__context__  # an error of a client that is being closed hides earlier errors
    if isinstance(cause, ConnectorError):
        return cause
    if isinstance(error, PartitionAssignmentError):
        error = of_rebalance(error)
    if isinstance(error, ConnectorError):
        return error
    if isinstance(error, CheckpointProducerTimeout | KafkaProducerDeliveryError | BufferError):
        return producing_failed(error)
    if isinstance(error, CheckpointConsumerCommitError | KafkaException) and (kafka := error_of(error)) is not None:
        if kafka.fatal():  # an error of the producer, because the client returns fatal errors of a consumer as messages
            return producing_failed(error)
        return not_committed(kafka, "committing offsets")
    if isinstance(error, KafkaConsumerException):
        return recovering_failed(error)
    if isinstance(error, _TOO_LATE):  # partitions were lost while a checkpoint was open
        return RetryableError("consuming", f"{error!r}", FROM_LAST_COMMIT)
    doing = "running quixstreams" if isinstance(error, QuixException) else "running transform() or one of its sinks"
    logger.debug("%s", doing, exc_info=error)  # the error's message may quote a record
    return FatalError(doing, f"{type(error).__name__}{at_line_of(error)}", _NEXT_START)


def at_line_of(error: BaseException) -> str:
    """Returns ``at file:line`` of the user's code that raised the error; empty if no user's code raised it.

    A path in the connector's folder is relative to this folder. Other paths are absolute.
    """
    frames = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__) if _is_users(frame)]
    if not frames:
        return ""
    path, line = Path(frames[-1][0]), frames[-1][1]
    return f" at {path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}:{line}"


def _is_users(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    module = str(frame.f_globals.get("__name__"))
    return not (file.startswith("<") or file.startswith(_LIBRARIES) or module.startswith(_OWN))
