"""An observer of the sink: stream timeouts follow records by it, and the sink needs no keys."""

from collections.abc import Iterable, Sequence
from typing import Any

from app.model import Message, Rejected, TopicPartition


class SinkObserver:
    """Notified of the sink's work, on the consumer's thread; does nothing by itself."""

    def assigned(self, tps: Iterable[TopicPartition]) -> None: ...
    def unassigned(self, tps: Iterable[TopicPartition]) -> None: ...
    def row_added(self, tp: TopicPartition, key: Any) -> None: ...
    def messages_added(self, tp: TopicPartition, messages: Sequence[Message]) -> None: ...
    def record_rejected(self, rejected: Rejected) -> None: ...

    def turn(self, *, is_in_trouble: bool) -> None:
        """A turn of the consumer's loop is over; ``is_in_trouble`` where the pipeline has failed or is obstructed."""

    def flushed(self) -> None:
        """A flush is over, successful or not."""

    def waited(self) -> None:
        """The loop has waited for room in the buffer."""


NOBODY = SinkObserver()
