"""Observes the sink for stream timeouts: restarts the timer of each arriving key."""

from collections.abc import Callable, Iterable, Sequence
from operator import methodcaller
from typing import Any

from quixstreams.models import Deserializer
from quixstreams.models.serializers import SerializationContext

from app.consumer.sink_observer import SinkObserver
from app.model import Message, Rejected, TopicPartition
from app.stream_timeouts.tracker import TimeoutTracker

_key = methodcaller("key")


class RawKeys(Deserializer):
    """Deserializes keys and remembers the bytes of the last one: events carry them as they came."""

    def __init__(self, deserialize: Deserializer) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._deserialize = deserialize
        self.topic = ""
        self.last: bytes | None = None

    def __call__(self, value: bytes, ctx: SerializationContext) -> Any:
        self.topic, self.last = ctx.topic, value
        return self._deserialize(value, ctx)


class KeyObserver(SinkObserver):
    """Restarts the timers of the keys whose records come to the sink.

    Only records that reach the sink count, as rows or as bad records; those dropped by ``transform()`` do not.
    ``on_turn`` is called at each turn of the consumer's loop.
    """

    def __init__(self, tracker: TimeoutTracker, raw_keys: RawKeys, on_turn: Callable[[], None]) -> None:
        self._tracker = tracker
        self._raw_keys = raw_keys
        self._on_turn = on_turn

    def assigned(self, tps: Iterable[TopicPartition]) -> None:
        self._tracker.begin(tps)

    def unassigned(self, tps: Iterable[TopicPartition]) -> None:
        self._tracker.forget(tps)

    def row_added(self, tp: TopicPartition, key: Any) -> None:
        # A message without a key leaves that of the one before it, and one of another topic than the input's too.
        if key is not None and tp.topic == self._raw_keys.topic:
            self._tracker.heard(tp, (self._raw_keys.last,))

    def messages_added(self, tp: TopicPartition, messages: Sequence[Message]) -> None:
        self._tracker.heard(tp, map(_key, messages))

    def record_rejected(self, rejected: Rejected) -> None:
        if not rejected.is_truncated:
            self.row_added(rejected.tp, rejected.key)
        elif rejected.key is not None and rejected.tp.topic == self._raw_keys.topic:  # no deserializer has seen it
            self._tracker.heard(rejected.tp, (rejected.key,))

    def turn(self, *, is_in_trouble: bool) -> None:
        if is_in_trouble:
            # Between the pauses of an outage old records are read again and again, and new ones hardly ever.
            self._tracker.did_not_listen()
        self._tracker.turn()
        self._on_turn()

    def flushed(self) -> None:
        self._tracker.did_not_listen()
        self._tracker.check()

    def waited(self) -> None:
        self._tracker.did_not_listen()
