"""Refuses records at which ``transform()`` failed, or that became no row."""

from typing import Any

from quixstreams.models import Row as FrameworkRow

from app.bad_records.refusals import HINT_TRANSFORM, LONGEST_REASON, NotARowError, NullValueError, Refusal, not_written
from app.consumer.user_code import at_line_of
from app.model import Message, Row, TopicPartition
from app.reasons import Reason, reason_of, shown


def not_processed(error: Exception, row: FrameworkRow, message: Message | None) -> Refusal:
    """Refuses a record at which ``transform()`` failed, or that became no row.

    ``row`` is the record as ``transform()`` got it. ``message`` holds this record alone; ``None`` if it is unknown.
    """
    if isinstance(error, NullValueError) and row.value is not None:
        error = NullValueError("transform() made null of it, as a function does that returns nothing")
    if isinstance(error, NotARowError):
        reason, hint = reason_of(error), error.hint
    else:
        raised = Reason("transform() raised ").also(type(error).__name__, shown(error, LONGEST_REASON))
        reason = raised.also(at_line_of(error))
        hint = HINT_TRANSFORM
    value: Any = row.value  # of whatever type
    ours = Row(value, row.key, row.timestamp, row.offset, row.headers, message)
    return not_written(reason, ours, TopicPartition(row.topic, row.partition), hint)
