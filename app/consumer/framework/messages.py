"""Keeps the message that is processed: quixstreams passes on only what its deserializers made of it."""

from collections.abc import Callable, Iterable
from typing import Any

from quixstreams.models import Topic

from app.bad_records.refusals import TooBigError, message_size
from app.model import Message


class CurrentMessage:
    """The message of the input topic whose record is processed, and its ``size``: bytes of value, key and headers.

    None is kept if a message ``holds_several`` records. ``most_bytes`` bounds a message that becomes a row.
    """

    def __init__(self, most_bytes: int, *, holds_several: bool = False) -> None:
        self._most_bytes = most_bytes
        self._holds_several = holds_several
        self._message: Message | None = None
        self.size = 0

    def watch(self, topics: Iterable[Topic], own: str) -> None:
        """See each message before quixstreams deserializes it; ``own`` names the input topic.

        Kafka's client leaves a null pointer for a header name that is not UTF-8. Its use would end the process; see
        ``headers_of``, by which each message is measured.
        """
        for topic in topics:
            see = self.begin if topic.name == own else self._measure
            vars(topic)["row_deserialize"] = _after(see, topic.row_deserialize)  # quixstreams has no other place for it

    def begin(self, message: Message) -> None:
        """Note that the processing of a message begins; raises ``TooBigError``."""
        self._measure(message)
        if self.size > self._most_bytes:
            raise TooBigError(self.size, self._most_bytes)
        self._message = None if self._holds_several else message

    def _measure(self, message: Message) -> None:
        self.size = message_size(message)

    def of(self, topic: str, partition: int, offset: int) -> Message | None:
        """The message with this offset, if it is the one that is processed."""
        message = self._message
        if message is None or (message.offset(), message.partition(), message.topic()) != (offset, partition, topic):
            return None
        return message


def _after(see: Callable[[Any], object], deserialize: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def row_deserialize(message: Any) -> Any:
        see(message)
        return deserialize(message)

    return row_deserialize
