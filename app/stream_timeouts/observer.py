"""The sink where the silence of keys is watched; without that the plain one is used, which knows nothing of keys."""

from collections.abc import Iterable, Sequence
from operator import methodcaller
from threading import get_ident
from typing import Any

from quixstreams.models import Deserializer, HeadersTuples
from quixstreams.models.serializers import SerializationContext

from app.consumer.sink import LakeSink
from app.model import Message, Rejected, TopicPartition
from app.stream_timeouts.tracker import TimeoutTracker

_key = methodcaller("key")


class RawKeys(Deserializer):
    """Deserializes keys and remembers the bytes of the last one: events carry them as they came.

    Args:
        deserialize: makes keys of the bytes.
    """

    def __init__(self, deserialize: Deserializer) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._deserialize = deserialize
        self.topic = ""
        self.last: bytes | None = None

    def __call__(self, value: bytes, ctx: SerializationContext) -> Any:
        """The key that these bytes stand for."""
        self.topic, self.last = ctx.topic, value
        return self._deserialize(value, ctx)


class WatchfulSink(LakeSink):
    """Tells which keys were heard, in which time.

    What counts are records that come to the sink, as rows or as bad ones; those that ``transform()`` drops do not.

    Args:
        silence: is told.
        raw_keys: the deserializer of the input topic's keys.
        arguments: those of ``LakeSink``.
    """

    def __init__(self, silence: TimeoutTracker, raw_keys: RawKeys, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._silence = silence
        self._raw_keys = raw_keys

    def add(
        self,
        value: Any,
        key: Any,
        timestamp: int,
        headers: HeadersTuples,
        topic: str,
        partition: int,
        offset: int,
    ) -> None:
        """See ``LakeSink.add``."""
        super().add(value, key, timestamp, headers, topic, partition, offset)
        self._heard(TopicPartition(topic, partition), key)

    def reject(self, rejected: Rejected, hint: str) -> None:
        """See ``LakeSink.reject``."""
        super().reject(rejected, hint)
        if not rejected.is_truncated:
            self._heard(rejected.tp, rejected.key)
        elif rejected.key is not None and rejected.tp.topic == self._raw_keys.topic:  # no deserializer has seen it
            self._silence.heard(rejected.tp, (rejected.key,))

    def _heard(self, tp: TopicPartition, key: Any) -> None:
        # A message without a key leaves that of the one before it, and one of another topic than the input's too.
        if key is not None and tp.topic == self._raw_keys.topic:
            self._silence.heard(tp, (self._raw_keys.last,))

    def add_messages(self, tp: TopicPartition, messages: Sequence[Message]) -> None:
        """See ``LakeSink.add_messages``."""
        super().add_messages(tp, messages)
        self._silence.heard(tp, map(_key, messages))

    def assign(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, str]:
        """See ``LakeSink.assign``."""
        tokens = super().assign(tps)
        self._silence.begin(tokens)
        return tokens

    def unassign(self, tps: Iterable[TopicPartition]) -> None:
        """See ``LakeSink.unassign``."""
        self._silence.forget(tps)
        super().unassign(tps)

    def turn(self) -> None:
        """See ``LakeSink.turn``."""
        if self._is_in_trouble:
            # Between the pauses of an outage old records are read again and again, and new ones hardly ever.
            self._silence.did_not_listen()
        self._silence.turn()
        super().turn()

    def flush(self) -> None:
        """See ``LakeSink.flush``."""
        try:
            super().flush()
        finally:
            if get_ident() == self._consumer_thread:  # another one flushes what is given away
                self._silence.did_not_listen()
                self._silence.check()

    def wait_for_room(self) -> bool:
        """See ``LakeSink.wait_for_room``."""
        try:
            return super().wait_for_room()
        finally:
            self._silence.did_not_listen()
