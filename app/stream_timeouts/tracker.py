"""Which keys have fallen silent: a timer for each key of each assigned partition. For the consumer's thread alone.

The timers count the time in which the connector listened, and not the time that went by: while a partition is paused or
Kafka is out of reach nothing can be heard, and every key would seem silent.
"""

import logging
import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from quixstreams.sinks.core.stream_timeout_tracker import StreamTimeoutTracker

from app.model import TopicPartition

logger = logging.getLogger(__name__)

# A key's place in a dict that has just grown (84 bytes), and what Python adds to its bytes (46).
_KEY_OVERHEAD = 130
# The time between two turns of the consumer's loop that counts at most. A turn that takes longer was held up.
_LONGEST_TURN_SECONDS = 1.0
_SHORTEST_CHECK_SECONDS, _LONGEST_CHECK_SECONDS = 0.1, 1.0
_CHECKS_IN_TIMEOUT = 5


class Listener(Protocol):
    """Is notified of keys that timed out; see ``app.stream_timeouts.events.Announcer``."""

    def notify(self, key: bytes) -> None: ...
    def turn(self) -> None: ...


class Timers(StreamTimeoutTracker):
    """The timers of quixstreams for the keys of one assignment, without their thread.

    Whoever is told may take his time or raise: the key's timer is gone by then, so it fires once.

    Args:
        timeout_ms: how long a key may be silent.
        on_silent: told a key and its silence in ms.

    Attributes:
        paused: seconds of listening in which this partition could not be heard.
        held_bytes: what the keys take in memory, estimated.
    """

    def __init__(self, timeout_ms: int, on_silent: Callable[[bytes, int], None]) -> None:
        quiet = logging.getLogger(f"{__name__}.timers")
        quiet.setLevel(logging.WARNING)  # a key that is heard on another partition is not silent: we tell who is
        super().__init__(timeout_ms, self._fire, logger=quiet)
        self._on_silent = on_silent
        self._checked_ms = 0
        self.paused = 0.0
        self.held_bytes = 0

    def __contains__(self, key: bytes) -> bool:
        return key in self._last_seen_by_stream

    def __len__(self) -> int:
        return len(self._last_seen_by_stream)

    def touch_all(self, keys: Iterable[bytes | None], listened: float, room: int) -> bool:
        """Restart the timers of these keys; without a key there is none.

        Args:
            keys: of records just consumed.
            listened: the time of it, in seconds.
            room: bytes that new keys may take.

        Returns:
            Whether there was room for those that were new.
        """
        heard: dict[Any, int] = dict.fromkeys(keys, self._ms(listened))
        heard.pop(None, None)
        timers = self._last_seen_by_stream
        new = [key for key in heard if key not in timers]
        if new:
            size = _size(new)
            if size > room:
                for key in new:
                    del heard[key]
                timers.update(heard)
                return False
            self.held_bytes += size
        timers.update(heard)
        return True

    def check(self, listened: float) -> None:
        """Tell of the keys that are silent by now."""
        before = len(self)
        self._checked_ms = self._ms(listened)
        self.check_now(now_ms=self._checked_ms)
        if len(self) < before:
            self.held_bytes = _size(self._last_seen_by_stream)

    def _ms(self, listened: float) -> int:
        return int((listened - self.paused) * 1000)

    def _fire(self, key: bytes) -> None:
        since = self._last_seen_by_stream.pop(key)
        self._on_silent(key, self._checked_ms - since)


class TimeoutTracker:
    """Watches the keys of all assigned partitions.

    A key that is heard on several partitions is silent when it is on all of them. The keys of a partition that is given
    away are forgotten: its next owner hears of them with their next records.

    Args:
        timeout_ms: how long a key may be silent, above 0.
        max_bytes: most memory for keys; beyond it new ones are not watched.
        is_heard: whether a partition is being consumed.
        listener: told of silent keys.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        *,
        timeout_ms: int,
        max_bytes: int,
        is_heard: Callable[[TopicPartition], bool],
        listener: Listener,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._timeout_ms = timeout_ms
        self._max_bytes = max_bytes
        self._clock = clock
        timeout = timeout_ms / 1000
        # No step is longer than the timeout: a timer that runs out must not be found three timeouts later, when the
        # sweep of quixstreams takes it for forgotten.
        self._longest_turn = min(_LONGEST_TURN_SECONDS, timeout)
        self._check_every = min(
            max(_SHORTEST_CHECK_SECONDS, min(_LONGEST_CHECK_SECONDS, timeout / _CHECKS_IN_TIMEOUT)), timeout
        )
        self._timers: dict[TopicPartition, Timers] = {}
        self._listened = 0.0  # seconds
        self._next_check = self._check_every
        self._turned = clock()
        self._is_full = False
        self._is_heard = is_heard
        self._listener = listener

    def begin(self, tps: Iterable[TopicPartition]) -> None:
        """These partitions are assigned: nothing is known of their keys."""
        self._timers |= {tp: Timers(self._timeout_ms, self._silent) for tp in tps}

    def forget(self, tps: Iterable[TopicPartition]) -> None:
        """These partitions are given away, and their keys with them."""
        for tp in tps:
            self._timers.pop(tp, None)

    def heard(self, tp: TopicPartition, keys: Iterable[bytes | None]) -> None:
        """Records with these keys were just consumed from an assigned partition."""
        now = self._listened + self._since_turn(self._clock())
        if not self._timers[tp].touch_all(keys, now, self._max_bytes - self._held_bytes) and not self._is_full:
            self._is_full = True
            logger.warning(
                "silence of keys: %s keys take the %d MB there are for them, half of MAX_BUFFER_MB; "
                "new ones are not watched until others have fallen silent",
                f"{sum(map(len, self._timers.values())):,}",
                self._max_bytes // 2**20,
            )

    def turn(self) -> None:
        """A turn of the consumer's loop, in which it has listened, is over."""
        now = self._clock()
        passed = self._since_turn(now)
        self._turned = now
        self._listened += passed
        for tp, timers in self._timers.items():
            if not self._is_heard(tp):
                timers.paused += passed
        if self._listened >= self._next_check:
            self.check()
        self._listener.turn()

    def did_not_listen(self) -> None:
        """The time since the last turn went by with other things."""
        self._turned = self._clock()

    def check(self) -> None:
        """Tell of the keys that are silent by now."""
        self._next_check = self._listened + self._check_every
        for timers in self._timers.values():
            timers.check(self._listened)

    def _since_turn(self, now: float) -> float:
        return min(now - self._turned, self._longest_turn)

    def _silent(self, key: bytes, silence_ms: int) -> None:
        if any(key in timers for timers in self._timers.values()):
            return  # the timer of the partition where it was heard later will tell
        logger.info(
            "Stream %r timed out (silence %d ms >= threshold %d ms)", as_text(key), silence_ms, self._timeout_ms
        )
        self._listener.notify(key)

    @property
    def _held_bytes(self) -> int:
        return sum(timers.held_bytes for timers in self._timers.values())


def as_text(key: bytes) -> str:
    """A key for people, whatever its bytes are."""
    return key.decode("utf-8", errors="replace")


def _size(keys: Iterable[bytes]) -> int:
    sizes = list(map(len, keys))
    return sum(sizes) + _KEY_OVERHEAD * len(sizes)
