"""What accompanies the sink: an observer, by which stream timeouts follow records without its keys; a run's end."""

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from quixstreams import Application
from quixstreams.models import Deserializer

from app.delivery.members import Members
from app.model import Message, Rejected, TopicPartition

IsHeard = Callable[[TopicPartition], bool]  # whether a partition is being consumed


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


class KeyWatch(Protocol):
    """Watches keys by an observer of the sink, among the topics that Kafka shows; its deserializer is to read them."""

    key_deserializer: Deserializer

    def new_observer(self, application: Application, topics: Collection[str], is_heard: IsHeard, /) -> SinkObserver: ...


class RunEnd(AbstractContextManager[None], Protocol):
    """The end of a run that has one; the lane runs inside of its ``with`` block."""

    def before(self, tp: TopicPartition, messages: Sequence[Message], taken: int, /) -> Sequence[Message]:
        """Returns those of this run, of some by rising offsets; ``taken``: where this assignment goes on."""

    def only(self, deserialize: Callable[[Any], Any], /) -> Callable[[Any], Any]:
        """Wraps ``row_deserialize`` of a topic, so that quixstreams passes over what is not of this run."""

    def watch(
        self, members: Members, assigned: Callable[[], Collection[TopicPartition]], stop: Callable[[], None], /
    ) -> None:
        """Calls ``stop`` at the end; ``assigned`` returns the partitions of this member, none while they change."""


class Observed:
    """Tells the observer which partitions are assigned, for quixstreams tells nobody.

    For the consumer's thread, but for ``unassigned``.
    """

    def __init__(self, observer: SinkObserver = NOBODY) -> None:
        self.observer = observer
        self._known: set[TopicPartition] = set()
        self._unassigned: list[TopicPartition] = []

    def came(self, tp: TopicPartition) -> None:
        """A message of a partition came, of which none had come since the last assignment."""
        self.tell_unassigned()
        if tp not in self._known:
            self._known.add(tp)
            self.observer.assigned([tp])

    def unassigned(self, tps: Iterable[TopicPartition]) -> None:
        """The partitions are not assigned any more; the observer learns of it later, on the consumer's thread."""
        self._unassigned += tps

    def tell_unassigned(self) -> None:
        if self._unassigned:
            self.observer.unassigned(self._unassigned)
            self._known -= set(self._unassigned)
        self._unassigned = []
