"""Marks the errors of keys: quixstreams deserializes key and value in one call."""

from typing import Any

from quixstreams.models import Deserializer
from quixstreams.models.serializers import SerializationContext

from app.bad_records.refusals import OF_THE_KEY


class KeyDeserializer(Deserializer):
    """Deserializes keys by another deserializer."""

    def __init__(self, deserialize: Deserializer) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._deserialize = deserialize

    def __call__(self, value: bytes, ctx: SerializationContext) -> Any:
        try:
            return self._deserialize(value, ctx)
        except Exception as error:
            error.add_note(OF_THE_KEY)
            raise
