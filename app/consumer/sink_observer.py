"""Interfaces for parts that follow the sink's work: an observer for stream timeouts, and the end of a run."""

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from quixstreams import Application
from quixstreams.models import Deserializer

from app.delivery.members import Members
from app.model import Message, Rejected, TopicPartition

IsHeard = Callable[[TopicPartition], bool]  # returns whether a partition is being consumed


class SinkObserver:
    """Receives notifications of the sink's work on the consumer's thread. This base class does nothing."""

    def assigned(self, tps: Iterable[TopicPartition]) -> None: ...
    def unassigned(self, tps: Iterable[TopicPartition]) -> None: ...
    def row_added(self, tp: TopicPartition, key: Any) -> None: ...
    def messages_added(self, tp: TopicPartition, messages: Sequence[Message]) -> None: ...
    def record_rejected(self, rejected: Rejected) -> None: ...

    def turn(self, *, is_in_trouble: bool) -> None:
        """A turn of the consumer's loop has ended. ``is_in_trouble``: the pipeline has failed or is blocked."""

    def flushed(self) -> None:
        """A flush has ended, successful or not."""

    def waited(self) -> None:
        """The consumer's loop has waited for free space in the buffer."""


NOBODY = SinkObserver()


class KeyWatch(Protocol):
    """Creates an observer that follows the message keys of topics. ``key_deserializer`` must deserialize these keys."""

    key_deserializer: Deserializer

    def new_observer(self, application: Application, topics: Collection[str], is_heard: IsHeard, /) -> SinkObserver: ...


class RunEnd(AbstractContextManager[None], Protocol):
    """The end of a run. The lane runs inside the ``with`` block of this context manager."""

    def before(self, tp: TopicPartition, messages: Sequence[Message], taken: int, /) -> Sequence[Message]:
        """Returns the messages before the end, in the order of offsets. ``taken`` is the next offset."""

    def only(self, deserialize: Callable[[Any], Any], /) -> Callable[[Any], Any]:
        """Wraps ``row_deserialize`` of a topic, so that quixstreams skips messages after the end."""

    def watch(
        self, members: Members, assigned: Callable[[], Collection[TopicPartition]], stop: Callable[[], None], /
    ) -> None:
        """Calls ``stop`` at the end. ``assigned`` returns this member's partitions; none during a rebalance."""


class Observed:
    """Notifies the observer of assigned partitions, because quixstreams does not report assignments.

    For the consumer's thread, except ``unassigned``.
    """

    def __init__(self, observer: SinkObserver = NOBODY) -> None:
        self.observer = observer
        self._assigned: set[TopicPartition] = set()
        self._unassigned: list[TopicPartition] = []

    def message_received(self, tp: TopicPartition) -> None:
        """The first message of a partition since the last assignment was received."""
        self.report_unassigned()
        if tp not in self._assigned:
            self._assigned.add(tp)
            self.observer.assigned([tp])

    def unassigned(self, tps: Iterable[TopicPartition]) -> None:
        """The partitions are no longer assigned. The observer is notified later, on the consumer's thread."""
        self._unassigned += tps

    def report_unassigned(self) -> None:
        if self._unassigned:
            self.observer.unassigned(self._unassigned)
            self._assigned -= set(self._unassigned)
        self._unassigned = []
