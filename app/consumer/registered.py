"""Deserializes keys and values whose schemas are in a registry, and marks the errors of all keys."""

from collections.abc import Callable
from typing import Any

from quixstreams.models import Deserializer
from quixstreams.models.serializers import MessageField, SerializationContext

from app.bad_records.refusals import OF_THE_KEY
from app.model import Headers

Read = Callable[[bytes, Headers | None, bool], Any]
"""Reads a key or value of a message with these headers; the last argument is whether it is the key."""


class RegisteredDeserializer(Deserializer):
    """Deserializes with the schema whose id the message has."""

    def __init__(self, read: Read) -> None:
        self._read = read

    def __call__(self, value: bytes, ctx: SerializationContext) -> Any:
        headers: Any = ctx.headers
        return self._read(value, headers, ctx.field == MessageField.KEY)


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
