"""What the topic's deserializers are, beside those of quixstreams, and how they read a single message."""

from collections.abc import Callable
from typing import Any

from quixstreams.models import Deserializer, Topic
from quixstreams.models.serializers import DESERIALIZERS, MessageField, SerializationContext
from quixstreams.models.serializers.json import JSONDeserializer
from quixstreams.models.serializers.quix import QuixDeserializer

from app.bad_records.refusals import OF_THE_KEY, Refusal, as_it_came, no_object, not_deserialized
from app.errors import RetryableError
from app.json_texts import loads
from app.model import Headers, Message, Row
from app.monitoring.waits import Stopped
from app.reasons import reason_of

Read = Callable[[bytes, Headers | None, bool, str], Any]
"""Reads a key or value of a message with these headers; then come whether it is the key, and the message's topic."""


def new_deserializer(name: str) -> Deserializer:
    exact = {"json": JSONDeserializer, "quix": QuixDeserializer}
    made: Deserializer = exact[name](loads=loads) if name in exact else DESERIALIZERS[name]()
    return made


class RegisteredDeserializer(Deserializer):
    """Deserializes with the schema whose id the message has."""

    def __init__(self, read: Read) -> None:
        self._read = read

    def __call__(self, value: bytes, ctx: SerializationContext) -> Any:
        headers: Any = ctx.headers
        return self._read(value, headers, ctx.field == MessageField.KEY, ctx.topic)


class KeyDeserializer(Deserializer):
    """Deserializes keys by another deserializer. Its errors get a note: quixstreams reads key and value in one call."""

    def __init__(self, deserialize: Deserializer) -> None:
        self._deserialize = deserialize

    def __call__(self, value: bytes, ctx: SerializationContext) -> Any:
        try:
            return self._deserialize(value, ctx)
        except Exception as error:
            error.add_note(OF_THE_KEY)
            raise


def read_message(topic: Topic, message: Message) -> Row | Refusal:
    """The message's row, or why it has none: for a batch of the plain lane that cannot be read as a whole.

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
