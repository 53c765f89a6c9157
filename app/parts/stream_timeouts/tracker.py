"""Finds message keys that have timed out. Each message key of an assigned partition has a timer.

The timers count only the time of consuming. While a partition is paused or Kafka is unavailable, no records can arrive,
and all message keys would time out. Only the consumer's thread may use this module.
"""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from operator import methodcaller
from typing import Any

from quixstreams.models import Deserializer
from quixstreams.models.serializers import SerializationContext

from app.consumer.sink_observer import SinkObserver
from app.errors import cut
from app.model import Message, Rejected, TopicPartition

logger = logging.getLogger(__name__)

# The bytes that a message key needs in a dict that has just grown (84), and Python's overhead of a bytes object (46).
_KEY_OVERHEAD = 130
# The maximum time that a turn of the consumer's loop adds to timers. In a longer turn, the loop was blocked.
_LONGEST_TURN_SECONDS = 1.0
_SHORTEST_CHECK_SECONDS, _LONGEST_CHECK_SECONDS = 0.1, 1.0  # limits; usually five checks in a time-out
_NAMED, _LONGEST_NAME = 3, 80  # maximum keys in a line of the log, and characters of a key
_key = methodcaller("key")


@dataclass(slots=True)
class _Timers:
    """The timers of one partition. Times are in seconds of consuming.

    ``last_seen`` contains, for each message key, the time of the last record. ``paused`` is the time in which no record
    could arrive. ``held_bytes`` is the estimated memory of the message keys.
    """

    last_seen: dict[bytes, float] = field(default_factory=dict)
    paused: float = 0.0
    held_bytes: int = 0

    def touch(self, keys: Iterable[bytes | None], now: float, room: int) -> bool:
        """Restart the timers of these message keys. Return false if new keys need more than ``room`` bytes."""
        seen: dict[Any, float] = dict.fromkeys(keys, now - self.paused)
        seen.pop(None, None)
        new = [key for key in seen if key not in self.last_seen]
        size = _size(new)
        has_room = size <= room
        if has_room:
            self.held_bytes += size
        else:
            for key in new:
                del seen[key]
        self.last_seen.update(seen)
        return has_room

    def pop_timed_out(self, now: float, timeout: float) -> list[tuple[bytes, float]]:
        """Remove and return the message keys that have timed out. Each key has its silence in seconds."""
        now -= self.paused
        silent = [(key, now - since) for key, since in self.last_seen.items() if now - since >= timeout]
        for key, _ in silent:
            del self.last_seen[key]
        self.held_bytes -= _size([key for key, _ in silent])
        return silent


class RawKeys(Deserializer):
    """Deserializes message keys, and stores the bytes of the last message key for events."""

    def __init__(self, deserialize: Deserializer) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._deserialize = deserialize
        self.topic = ""
        self.last: bytes | None = None

    def __call__(self, value: bytes, ctx: SerializationContext) -> Any:
        self.topic, self.last = ctx.topic, value
        return self._deserialize(value, ctx)


@dataclass(kw_only=True, eq=False)
class TimeoutTracker(SinkObserver):
    """Watches the message keys of all assigned partitions. Each silence causes one notification.

    Rows and bad records restart a timer, but records that ``transform()`` drops do not. If a key is in several
    partitions, all of its timers must time out. The keys of a revoked partition are forgotten: the next owner watches a
    key from the key's next record on. Above ``max_bytes``, new keys are not watched. ``is_heard`` returns whether the
    connector consumes a partition. ``on_turn`` is called at each turn of the consumer's loop.
    """

    timeout_ms: int
    max_bytes: int
    is_heard: Callable[[TopicPartition], bool]
    raw_keys: RawKeys
    notify: Callable[[bytes], None]
    on_turn: Callable[[], None]
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._timeout = self.timeout_ms / 1000
        self._check_every = max(_SHORTEST_CHECK_SECONDS, min(_LONGEST_CHECK_SECONDS, self._timeout / 5))
        self._timers: dict[TopicPartition, _Timers] = {}
        self._listened = 0.0  # seconds
        self._next_check = self._check_every
        self._turned = self.clock()
        self._is_full = False

    def assigned(self, tps: Iterable[TopicPartition]) -> None:
        self._timers |= {tp: _Timers() for tp in tps}

    def unassigned(self, tps: Iterable[TopicPartition]) -> None:
        for tp in tps:
            self._timers.pop(tp, None)

    def row_added(self, tp: TopicPartition, key: Any) -> None:
        # Messages without a key, and messages of other topics than input topics, do not change ``last``.
        if key is not None and tp.topic == self.raw_keys.topic:
            self._heard(tp, (self.raw_keys.last,))

    def messages_added(self, tp: TopicPartition, messages: Sequence[Message]) -> None:
        self._heard(tp, map(_key, messages))

    def record_rejected(self, rejected: Rejected) -> None:
        if not rejected.is_truncated:
            self.row_added(rejected.tp, rejected.key)
        elif rejected.key is not None and rejected.tp.topic == self.raw_keys.topic:  # its key is raw bytes
            self._heard(rejected.tp, (rejected.key,))

    def _heard(self, tp: TopicPartition, keys: Iterable[bytes | None]) -> None:
        """Restart the timers of these message keys, because records were consumed from an assigned partition."""
        now = self._listened + self._since_turn(self.clock())
        room = self.max_bytes - sum(timers.held_bytes for timers in self._timers.values())
        if not self._timers[tp].touch(keys, now, room) and not self._is_full:
            self._is_full = True
            logger.warning(
                "stream timeouts: %s keys fill their memory of %d MB, half of MAX_BUFFER_MB; "
                "new keys are not watched until other keys have timed out",
                f"{sum(len(timers.last_seen) for timers in self._timers.values()):,}",
                self.max_bytes // 2**20,
            )

    def turn(self, *, is_in_trouble: bool) -> None:
        """Add the time since the last turn to the timers, except during an outage.

        During an outage, old records are read repeatedly, and new records are rarely read.
        """
        now = self.clock()
        if is_in_trouble:
            self._turned = now
        passed = self._since_turn(now)
        self._turned = now
        self._listened += passed
        for tp, timers in self._timers.items():
            if not self.is_heard(tp):
                timers.paused += passed
        if self._listened >= self._next_check:
            self._check()
        self.on_turn()

    def waited(self) -> None:
        self._turned = self.clock()  # no timer counts the time since the last turn

    def flushed(self) -> None:
        self.waited()
        self._check()

    def _check(self) -> None:
        self._next_check = self._listened + self._check_every
        silent = [
            (key, silence)
            for timers in self._timers.values()
            for key, silence in timers.pop_timed_out(self._listened, self._timeout)
            # If another partition has a timer for this key, that timer notifies later.
            if not any(key in others.last_seen for others in self._timers.values())
        ]
        if silent:
            longest = max(silence for _, silence in silent) * 1000
            reason = f"silence {longest:,.0f} ms >= threshold {self.timeout_ms:,} ms"
            logger.info("%s timed out (%s)", _names([key for key, _ in silent]), reason)
        for key, _ in silent:
            self.notify(key)

    def _since_turn(self, now: float) -> float:
        return min(now - self._turned, _LONGEST_TURN_SECONDS)


def _size(keys: list[bytes]) -> int:
    return sum(map(len, keys)) + _KEY_OVERHEAD * len(keys)


def _names(keys: Sequence[bytes]) -> str:
    names = ", ".join(cut(repr(key.decode(errors="replace")), _LONGEST_NAME) for key in keys[:_NAMED])
    more = f" and {len(keys) - _NAMED:,} more" if len(keys) > _NAMED else ""
    return f"Stream{'s' if keys[1:] else ''} {names}{more}"
