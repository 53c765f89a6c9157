"""Where this run ends, and whether all before that is in the lake (``UNTIL``)."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from quixstreams.models.serializers import IgnoreMessage

from app.model import Message, TopicPartition


class Until:
    """``ends``: for each partition the offset after the last record of this run; 0 if it has none.

    A partition that is not there was added later: its records are of a later run.
    """

    def __init__(self, ends: Mapping[TopicPartition, int]) -> None:
        self._ends = dict(ends)
        self._next: dict[TopicPartition, int] = {}  # the offset after the last record that was read

    def before(self, tp: TopicPartition, messages: Sequence[Message], taken: int | None = None) -> Sequence[Message]:
        """Returns those of this run, of some by rising offsets; ``taken``: where this assignment goes on, if known."""
        end = self._ends.get(tp, 0)
        kept = messages if messages[-1].offset() < end else [each for each in messages if each.offset() < end]
        if kept:
            self._next[tp] = kept[-1].offset() + 1
        if len(kept) < len(messages) and tp in self._ends:  # the last record of this run may have been compacted away
            self._ends[tp] = self._next.get(tp, 0) if taken is None or kept else taken
        return kept

    def only(self, deserialize: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Wraps ``row_deserialize`` of a topic, so that quixstreams passes over what is not of this run."""

        def row_deserialize(message: Any) -> Any:
            if not self.before(TopicPartition(message.topic(), message.partition()), [message]):
                raise IgnoreMessage
            return deserialize(message)

        return row_deserialize

    def left(self, assigned: Collection[TopicPartition], in_lake: Mapping[TopicPartition, int]) -> set[TopicPartition]:
        """Returns the assigned partitions some of whose records are not in the lake; ``in_lake`` as ``ends``."""
        return {tp for tp in assigned if in_lake.get(tp, 0) < self._ends.get(tp, 0)}

    def is_empty(self, left_out: Collection[str]) -> bool:
        """Whether this run has no record at all, but for those of topics that are left out."""
        return not any(end for tp, end in self._ends.items() if tp.topic not in left_out)

    def goes_on(self, ends: Mapping[TopicPartition, int]) -> None:
        """Notes the ends of internal topics, which grow as others are read."""
        self._ends |= ends
