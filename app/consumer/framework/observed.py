"""Tells the observer of the sink which partitions are assigned, for quixstreams tells nobody."""

from collections.abc import Iterable

from app.consumer.sink_observer import NOBODY, SinkObserver
from app.model import TopicPartition


class Observed:
    """For the consumer's thread, but for ``give_away``."""

    def __init__(self, observer: SinkObserver = NOBODY) -> None:
        self.observer = observer
        self._known: set[TopicPartition] = set()
        self._given_away: list[TopicPartition] = []

    def came(self, tp: TopicPartition) -> None:
        """A message of a partition came, of which none had come since the last assignment."""
        self.forget_given_away()
        if tp not in self._known:
            self._known.add(tp)
            self.observer.assigned([tp])

    def give_away(self, tps: Iterable[TopicPartition]) -> None:
        """The partitions are not assigned any more; the observer learns of it later, on the consumer's thread."""
        self._given_away += tps

    def forget_given_away(self) -> None:
        if self._given_away:
            self.observer.unassigned(self._given_away)
            self._known -= set(self._given_away)
        self._given_away = []
