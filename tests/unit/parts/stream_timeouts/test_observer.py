"""What the observer of the sink makes of records, one by one and in batches."""

from typing import Any

import pytest
from quixstreams.context import set_message_context
from quixstreams.models import MessageContext, MessageField
from quixstreams.models.serializers import SerializationContext

from app.bad_records.refusals import NotARowError, Refusal
from app.errors import RetryableError
from app.model import Rejected, TopicPartition
from app.parts.stream_timeouts.tracker import RawKeys, TimeoutTracker
from app.reason_texts import Reason
from app.service.formats import new_deserializer
from tests.fakes.clock import Clock
from tests.support.batches import NOON
from tests.support.world import P0
from tests.unit.consumer.framework import row_sink_bench

TIMEOUT = 10


class Bench(row_sink_bench.Bench):
    def __init__(self, deserializer: str = "str") -> None:
        self.told: list[bytes] = []
        self.turns = 0
        self.raw_keys = RawKeys(new_deserializer(deserializer))

        clock = Clock()
        self.observer = TimeoutTracker(
            timeout_ms=TIMEOUT * 1000,
            max_bytes=10**6,
            is_heard=lambda _: True,
            raw_keys=self.raw_keys,
            notify=self.told.append,
            on_turn=self._count_turn,
            clock=clock,
        )
        super().__init__(clock=clock, observer=self.observer)
        self.member.flow.on_wait = lambda: None

    def _count_turn(self) -> None:
        self.turns += 1

    def row(self, key: bytes | None, value: Any = None, tp: TopicPartition = P0, offset: int = 0) -> None:
        context = MessageContext(tp.topic, tp.partition, offset, 100)
        set_message_context(context)
        read = None if key is None else self.raw_keys(key, SerializationContext(tp.topic, MessageField.KEY))
        self.sink.begin_record(context, NOON)
        self.sink.add({"v": 1} if value is None else value, read, NOON, [], tp.topic, tp.partition, offset)
        self.sink.message_processed(tp, offset)

    def listen(self, seconds: int) -> None:
        for _ in range(seconds):
            self.clock.advance(1)
            self.sink.tick(is_stable=True)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_rows_keep_their_keys_awake(bench: Bench) -> None:
    bench.row(b"a")
    bench.row(b"b", offset=1)
    bench.listen(6)
    bench.row(b"b", offset=2)
    bench.listen(6)
    assert bench.told == [b"a"]
    assert bench.turns == 12, "answers of Kafka are taken at each"


@pytest.mark.parametrize(("deserializer", "key"), [("bytes", b"\xff\x00"), ("json", b'{ "b": 1, "a" :2}')])
def test_keys_are_told_as_they_came_however_they_are_read(deserializer: str, key: bytes) -> None:
    bench = Bench(deserializer)
    bench.row(key)
    bench.listen(TIMEOUT + 1)
    assert bench.told == [key]


def test_a_record_without_a_key_or_of_another_topic_does_not_count_for_the_one_before(bench: Bench) -> None:
    bench.row(b"a")
    bench.listen(6)
    bench.row(None, offset=1)
    bench.sink.add({"v": 1}, "a", NOON, [], "repartitioned", 0, 0)
    bench.listen(6)
    assert bench.told == [b"a"]


def test_a_bad_record_is_a_sign_of_life(bench: Bench) -> None:
    bench.row(b"a")
    bench.listen(6)
    with pytest.raises(NotARowError):
        bench.row(b"a", value=17, offset=1)
    bench.sink.reject(Refusal(Rejected(P0, 1, NOON, "a", 17, None, Reason("no object")), ""), is_deserialized=True)
    bench.listen(6)
    assert bench.told == []


def test_a_flush_does_not_count_and_is_followed_by_a_check(bench: Bench) -> None:
    bench.row(b"a")
    bench.listen(9)
    begin = bench.clock.now
    bench.member.flow.on_wait = lambda: bench.member.deliver() if bench.clock.now >= begin + 20 else None
    bench.sink.flush()
    assert bench.told == []

    bench.clock.advance(1)
    bench.sink.tick(is_stable=True)
    assert bench.told == [b"a"]


def test_a_key_that_is_due_is_told_at_a_flush(bench: Bench) -> None:
    bench.clock.advance(0.1)
    bench.row(b"a")
    bench.clock.advance(0.9)
    bench.sink.tick(is_stable=True)
    bench.listen(9)  # looked at for the last time
    bench.clock.advance(0.5)
    bench.sink.tick(is_stable=True)
    assert bench.told == []

    bench.member.flow.on_wait = bench.member.deliver
    bench.sink.flush()
    assert bench.told == [b"a"]


def test_the_time_of_an_outage_does_not_count_for_keys_that_are_read_again_nor_for_others(bench: Bench) -> None:
    bench.row(b"a")
    bench.row(b"b", offset=1)
    bench.member.flow.obstacle = RetryableError("uploading", "no route to host")
    for _ in range(3):
        bench.listen(TIMEOUT)
        bench.row(b"b", offset=1)
    assert bench.told == []

    bench.member.flow.obstacle = None
    bench.listen(TIMEOUT + 2)
    assert bench.told == [b"a", b"b"]
