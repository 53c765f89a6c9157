"""Keys that fall silent, with a clock that a test moves: each clause of what is promised."""

import logging
from collections.abc import Callable, Iterable

import pytest

from app.model import TopicPartition
from app.parts.stream_timeouts.tracker import RawKeys, TimeoutTracker
from app.service.formats import new_deserializer
from tests.fakes.clock import Clock
from tests.fakes.kafka_message import KafkaMessage

ONE, OTHER = TopicPartition("sensors", 0), TopicPartition("sensors", 1)
A, B = b"sensor-a", b"sensor-b"


class Watch:
    """A stream timeout after a minute, a clock, and a consumer's loop of which each turn takes half a second."""

    def __init__(self, timeout_ms: int = 60_000, max_bytes: int = 10**6) -> None:
        self.clock = Clock()
        self.told: list[bytes] = []
        self.unheard: set[TopicPartition] = set()
        self.on_tell: Callable[[bytes], None] = lambda _: None
        self.tracker = TimeoutTracker(
            timeout_ms=timeout_ms,
            max_bytes=max_bytes,
            is_heard=lambda tp: tp not in self.unheard,
            raw_keys=RawKeys(new_deserializer("bytes")),
            notify=self.notify,
            on_turn=lambda: None,
            clock=self.clock,
        )
        self.tracker.assigned([ONE, OTHER])

    def notify(self, key: bytes) -> None:
        self.told.append(key)
        self.on_tell(key)

    def hear(self, *keys: bytes | None, tp: TopicPartition = ONE) -> None:
        self.tracker.messages_added(tp, [KafkaMessage(b"{}", key, 0) for key in keys])

    def listen(self, seconds: float, step: float = 0.5) -> None:
        for _ in range(round(seconds / step)):
            self.clock.advance(step)
            self.tracker.turn(is_in_trouble=False)

    def told_since(self) -> list[bytes]:
        told, self.told = self.told, []
        return told


@pytest.fixture
def watch() -> Watch:
    return Watch()


# --- when a key is silent -------------------------------------------------------------------------------------------


def test_a_key_is_told_once_and_within_a_second_of_its_time_and_again_after_its_next_record(watch: Watch) -> None:
    watch.hear(None, A, B)
    watch.listen(30)
    watch.hear(B, None)
    watch.listen(29.5)
    assert watch.told == []
    watch.listen(1.5)
    assert watch.told_since() == [A]
    watch.hear(B)
    watch.listen(50)
    assert watch.told == []

    watch.hear(A, B)
    watch.listen(50)
    assert watch.told == []
    watch.listen(600)
    assert sorted(watch.told) == [A, B]


def test_the_time_of_a_key_begins_when_its_record_is_consumed_and_not_at_the_turn_before(watch: Watch) -> None:
    watch.listen(1)
    watch.clock.advance(0.4)  # the consumer waits for a message
    watch.hear(A)
    watch.clock.advance(0.1)
    watch.tracker.turn(is_in_trouble=False)
    watch.listen(59.5, step=0.1)
    assert watch.told == []


def test_keys_are_told_byte_for_byte_and_once_each_in_the_log(watch: Watch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    keys = [b"sensor-a", "Zürich\n".encode(), b"\xff" * 100, *(str(number).encode() for number in range(97))]
    watch.hear(keys[0])
    watch.listen(61)
    watch.hear(*keys[1:])
    watch.listen(61)
    assert watch.told == keys
    first, last = caplog.messages
    assert first == "Stream 'sensor-a' timed out (silence 60,000 ms >= threshold 60,000 ms)"
    assert last.startswith("Streams 'Zürich\\n', '\ufffd")
    assert last.endswith(", '0' and 96 more timed out (silence 60,000 ms >= threshold 60,000 ms)")
    assert len(last) < 200


def test_a_key_that_is_heard_while_it_is_told_is_armed_again(watch: Watch) -> None:
    watch.on_tell = lambda key: watch.hear(key, tp=OTHER)
    watch.hear(A)
    watch.listen(61)
    assert watch.told_since() == [A]
    watch.listen(61)
    assert watch.told_since() == [A]


# --- time that does not count ---------------------------------------------------------------------------------------


def test_a_partition_that_cannot_be_heard_has_no_silent_keys(watch: Watch) -> None:
    watch.hear(A)
    watch.hear(B, tp=OTHER)
    watch.listen(50)
    watch.unheard = {ONE}
    watch.listen(500)
    assert watch.told_since() == [B]

    watch.unheard = set()
    watch.listen(9)
    assert watch.told_since() == []
    watch.listen(2)
    assert watch.told_since() == [A]


@pytest.mark.parametrize("is_heard", [False, True])
def test_a_loop_that_is_held_up_makes_no_key_silent(watch: Watch, is_heard: bool) -> None:
    watch.hear(A)
    watch.listen(50)
    watch.clock.advance(3_600)  # frozen with the machine
    if is_heard:
        watch.hear(A)  # before the first turn
    watch.tracker.turn(is_in_trouble=False)
    watch.listen(59 if is_heard else 8)  # a second of the pause counts
    assert watch.told == []
    watch.listen(2)
    assert watch.told == [A]


# --- partitions -----------------------------------------------------------------------------------------------------


def test_a_partition_that_was_given_away_begins_anew(watch: Watch) -> None:
    watch.hear(A)
    watch.hear(B, tp=OTHER)
    watch.listen(50)
    watch.tracker.unassigned([ONE])
    watch.tracker.assigned([ONE])
    watch.listen(100)
    assert watch.told_since() == [B]

    watch.hear(A)
    watch.listen(61)
    assert watch.told == [A]


def test_a_key_on_several_partitions_is_silent_when_it_is_on_all_and_told_once(watch: Watch) -> None:
    watch.hear(A)
    watch.listen(40)
    watch.hear(A, tp=OTHER)
    watch.listen(40)
    assert watch.told == []

    watch.listen(40)
    assert watch.told_since() == [A]
    watch.hear(A)
    watch.hear(A, tp=OTHER)
    watch.listen(100)
    assert watch.told == [A], "also where it falls silent on both at once"


# --- memory ---------------------------------------------------------------------------------------------------------


def _keys(numbers: Iterable[int]) -> list[bytes]:
    return [b"%050d" % number for number in numbers]


def test_keys_beyond_the_bound_are_not_watched_and_those_within_go_on(caplog: pytest.LogCaptureFixture) -> None:
    watch = Watch(max_bytes=180 * 100)
    watch.hear(*_keys(range(100)))
    watch.listen(50)
    watch.hear(*_keys(range(60, 200)))  # 40 known ones and 100 new
    watch.listen(50)

    assert sorted(watch.told_since()) == _keys(range(60))
    [warning] = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert "100 keys" in warning
    assert "MAX_BUFFER_MB" in warning

    watch.hear(*_keys(range(300, 330)))
    watch.listen(61)
    assert sorted(watch.told_since()) == _keys([*range(60, 100), *range(300, 330)])


def test_a_partition_that_is_given_away_makes_room() -> None:
    watch = Watch(max_bytes=180 * 100)
    watch.hear(*_keys(range(100)))
    watch.tracker.unassigned([ONE])
    watch.hear(*_keys(range(100, 200)), tp=OTHER)
    watch.listen(61)
    assert len(watch.told) == 100
