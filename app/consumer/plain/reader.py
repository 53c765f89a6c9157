"""Reads single messages of a batch by the topic's deserializers, where the batch cannot be read as a whole."""

from typing import Any

from quixstreams.models import Topic

from app.bad_records.refusals import Refusal, as_it_came, no_object, not_deserialized
from app.errors import RetryableError
from app.model import Message, Row
from app.monitoring.waits import Stopped
from app.reasons import reason_of


def read_message(topic: Topic, message: Message) -> Row | Refusal:
    """The message's row, or why it has none, with the same result as the framework's lane.

    Raises:
        RetryableError: a deserializer needs a system that does not answer.
        Stopped: the process stopped while a deserializer waited for one.
    """
    try:
        row: Any = topic.row_deserialize(message)  # type: ignore[arg-type] # it asks for no more than this
    except (RetryableError, Stopped):
        raise
    except Exception as error:  # noqa: BLE001 - whatever a deserializer raises
        return not_deserialized(error, message)
    if not isinstance(row.value, dict):
        refused = no_object(row.value)
        return Refusal(as_it_came(message, reason_of(refused)), refused.hint)
    return Row(row.value, row.key, row.timestamp, row.offset, row.headers, message)
