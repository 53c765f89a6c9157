"""The consumer's loop in large steps, with a consumer that is played; sink and checkpoints are the real ones."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError
from quixstreams.kafka.exceptions import KafkaConsumerException

from app.consumer import batch_poll
from app.consumer.batch_poll import BatchPoll
from app.consumer.checkpoints import Checkpoints
from app.model import Message, TopicPartition
from app.monitoring.metrics import Metrics
from tests.fakes.kafka_message import KafkaMessage
from tests.support.batches import TP
from tests.unit.consumer import sink_bench
from tests.unit.consumer.sink_bench import OTHER

LOST = TopicPartition("sensors", 7)


class Consumer:
    """Gives what a test says, poll by poll."""

    backpressured_tps: frozenset[TopicPartition] = frozenset()

    def __init__(self) -> None:
        self.polls: list[list[KafkaMessage]] = []
        self.asked: list[int] = []

    def consume(self, most: int, seconds: float) -> list[KafkaMessage]:
        assert seconds > 0
        self.asked.append(most)
        return self.polls.pop(0) if self.polls else []


class SinkManager:
    sinks: Sequence[Any] = ()


class Line:
    """Batch polling with its surroundings."""

    def __init__(self, max_buffer_bytes: int = 10**9) -> None:
        self.consumer = Consumer()
        self.sink_bench = sink_bench.Bench(batch_size=10**6, max_buffer_bytes=max_buffer_bytes)
        self.sink = self.sink_bench.sink
        self.assignments = self.sink_bench.assignments
        self.checkpoints = Checkpoints(
            assignments=self.assignments,
            on_committed=lambda _: None,
            metrics=Metrics(),
            commit_interval=3600,
            commit_every=0,
            producer=None,
            consumer=self.consumer,
            state_manager=None,
            exactly_once=False,
            sink_manager=SinkManager(),
            dataframe_registry=None,
        )
        self.checkpoints.init_checkpoint()
        self.waiting: set[TopicPartition] = set()
        self.went_back: list[tuple[TopicPartition, int, int]] = []
        self.failures: list[KafkaError] = []
        self.passed_over: list[Message] = []
        self.may_go_on = True
        paused: Any = SimpleNamespace(
            waits=self.waiting.__contains__, seek_to_expected=lambda *went: self.went_back.append(went)
        )
        rejected: Any = SimpleNamespace(consuming_failed=self._failed, pass_over=self.passed_over.append)
        self.batch_poll = BatchPoll(
            consume=self.consumer.consume,
            assignments=self.assignments,
            sink=self.sink,
            checkpoints=self.checkpoints,
            paused=paused,
            rejected=rejected,
        )

    def _failed(self, error: Exception, message: None) -> bool:
        assert isinstance(error, KafkaConsumerException)
        self.failures.append(error.error)
        return self.may_go_on

    def poll(self, *messages: KafkaMessage) -> None:
        self.consumer.polls.append(list(messages))
        self.batch_poll.turn({})

    def pause(self) -> None:
        """The destination takes nothing for a while: all is read again from the last commit on."""
        self.sink.on_paused()
        self.begin_anew()

    def begin_anew(self) -> None:
        self.checkpoints.init_checkpoint()
        for tp in self.assignments.tps:
            self.assignments.expect(tp, 0)

    @property
    def sealed(self) -> dict[TopicPartition, list[int]]:
        """The offsets of all that came into the sink, after they are sealed."""
        self.sink._seal("test")
        found: dict[TopicPartition, list[int]] = {}
        for batch in self.sink_bench.pipeline.batches:
            for part, messages in zip(batch.parts, batch.messages, strict=True):
                found.setdefault(part.offsets.tp, []).extend(message.offset() for message in messages)
        return found

    @property
    def stored(self) -> dict[TopicPartition, int]:
        """The last offset of each partition that is to be committed."""
        return {TopicPartition(*tp): offset for tp, offset in self.checkpoints.checkpoint._tp_offsets.items()}


def of(tp: TopicPartition, *offsets: int) -> list[KafkaMessage]:
    return [KafkaMessage(b'{"v":1}', at=offset, of_partition=tp.partition) for offset in offsets]


def failed(code: int) -> KafkaMessage:
    return KafkaMessage(None, failure=KafkaError(code))


@pytest.fixture
def line() -> Line:
    return Line()


def test_interleaved_partitions_keep_the_order_of_each(line: Line) -> None:
    a, b = of(TP, 5, 6, 7), of(OTHER, 100, 101)
    line.poll(a[0], b[0], a[1], b[1], a[2])
    assert line.sealed == {TP: [5, 6, 7], OTHER: [100, 101]}
    assert line.stored == {TP: 7, OTHER: 101}


def test_gaps_are_no_repetitions(line: Line) -> None:
    line.poll(*of(TP, 1, 5, 9))
    line.poll(*of(TP, 20))
    assert line.sealed == {TP: [1, 5, 9, 20]}
    assert line.went_back == []


def test_the_good_ones_come_before_an_error_that_ends_the_loop(line: Line) -> None:
    line.may_go_on = False
    with pytest.raises(KafkaConsumerException):
        line.poll(*of(TP, 1), failed(KafkaError._ALL_BROKERS_DOWN), *of(TP, 2))
    assert line.sealed == {TP: [1, 2]}
    assert line.stored == {TP: 2}


def test_errors_that_pass_are_each_reported(line: Line) -> None:
    line.poll(failed(KafkaError._TRANSPORT), *of(TP, 1), failed(KafkaError._ALL_BROKERS_DOWN))
    assert [error.code() for error in line.failures] == [KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN]
    assert line.sealed == {TP: [1]}


def test_partitions_that_are_not_ours_are_passed_over(line: Line) -> None:
    line.poll(*of(TP, 1), *of(LOST, 1, 2))
    assert line.sealed == {TP: [1]}
    assert line.stored == {TP: 1}


def test_partitions_that_wait_for_their_claim_are_passed_over(line: Line) -> None:
    line.waiting.add(OTHER)
    line.poll(*of(OTHER, 3, 4), *of(TP, 1))
    line.waiting.clear()
    line.assignments.expect(OTHER, 3)
    line.poll(*of(OTHER, 3))
    assert line.sealed == {TP: [1], OTHER: [3]}
    assert line.went_back == []


# --- offsets that go back -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("polls", "taken", "went_back"),
    [
        ([[5, 6], [0, 1, 2], [7, 8]], [5, 6, 7, 8], [(TP, 0, 7)]),
        ([[5, 6, 0, 1]], [5, 6], [(TP, 0, 7)]),
        ([[5, 6, 3, 4, 5, 6, 7, 8], [9]], [5, 6, 7, 8, 9], [(TP, 3, 9)]),  # the topic may have been recreated
        ([[5, 5, 6]], [5, 6], None),
    ],
    ids=["between polls", "within a poll", "and catch up", "twice"],
)
def test_offsets_that_go_back_are_taken_once(
    line: Line, polls: list[list[int]], taken: list[int], went_back: list[tuple[TopicPartition, int, int]] | None
) -> None:
    for offsets in polls:
        line.poll(*of(TP, *offsets))
    assert line.sealed == {TP: taken}
    assert line.stored == {TP: taken[-1]}
    assert went_back is None or line.went_back == went_back


def test_offsets_before_the_start_of_an_assignment(line: Line) -> None:
    line.assignments.expect(TP, 50)
    line.poll(*of(TP, 48, 49))
    assert line.went_back == [(TP, 48, 50)]
    line.poll(*of(TP, 49, 50, 51))
    assert line.sealed == {TP: [50, 51]}


# --- back-pressure --------------------------------------------------------------------------------------------------


def test_what_is_sealed_is_skipped_when_it_comes_again_after_a_pause(line: Line) -> None:
    line.poll(*of(TP, 1, 2, 3), *of(OTHER, 1))
    assert line.sealed == {TP: [1, 2, 3], OTHER: [1]}
    line.poll(*of(TP, 4, 5))
    line.pause()
    line.poll(*of(TP, 1, 2))
    line.poll(*of(TP, 3, 4), *of(OTHER, 1, 2))
    line.poll(*of(TP, 5, 6))
    assert line.sealed == {TP: [1, 2, 3, 4, 5, 6], OTHER: [1, 2]}
    assert line.stored == {TP: 6, OTHER: 2}
    assert line.went_back == []


def test_a_new_assignment_takes_what_the_former_had(line: Line) -> None:
    line.poll(*of(TP, 1, 2))
    line.sink.unassign([TP])
    line.sink.assign([TP])
    line.begin_anew()
    line.poll(*of(TP, 1, 2, 3))
    assert line.sealed == {TP: [1, 2, 3]}


# --- how much at once -----------------------------------------------------------------------------------------------


def large(*offsets: int, size: int = 2**20) -> list[KafkaMessage]:
    return [KafkaMessage(b"x" * size, at=offset) for offset in offsets]


def test_many_are_asked_for_where_messages_are_small(line: Line) -> None:
    line.poll(*of(TP, 1, 2))
    line.poll()
    assert line.consumer.asked[1] > line.consumer.asked[0], "nothing is known of the first"


def test_less_is_asked_for_where_messages_are_large(line: Line) -> None:
    line.poll(*of(TP, 1))
    line.poll(*large(2, 3, 4, 5))
    line.poll(*of(TP, 6))
    line.poll()
    _, small, less, small_again = line.consumer.asked
    assert 1 <= less * 2**20 <= batch_poll._POLL_BYTES
    assert small == small_again > less


def test_one_is_asked_for_where_a_message_is_larger_than_the_bound(line: Line) -> None:
    line.poll(*large(1, size=batch_poll._POLL_BYTES + 1))
    line.poll()
    assert line.consumer.asked[1] == 1


def test_no_more_is_asked_for_than_the_buffer_takes() -> None:
    line = Line(max_buffer_bytes=2**20)
    line.poll(*large(1, 2, size=100_000))
    line.poll()
    assert 1 <= line.consumer.asked[1] * 100_000 <= 2**20 - 200_000
    line.poll(*large(*range(3, 13), size=100_000))
    line.poll()
    assert line.consumer.asked[3] == 1, "a full buffer makes a checkpoint, but the client is asked all the same"


def test_errors_say_nothing_about_the_size(line: Line) -> None:
    line.poll(*of(TP, 1))
    line.poll(failed(KafkaError._TRANSPORT))
    line.poll()
    assert line.consumer.asked[1] == line.consumer.asked[2]


def test_tombstones_are_taken(line: Line) -> None:
    line.poll(KafkaMessage(None, at=1), KafkaMessage(None, at=2))
    assert line.sealed == {TP: [1, 2]}


def test_what_is_too_big_is_put_aside_in_turn_and_only_its_beginning_is_kept(line: Line) -> None:
    big = KafkaMessage(b"x" * 1_000_001, b"key", at=3, raw_headers=[("trace", b"1")])
    line.poll(*of(TP, 1, 2), big, *of(TP, 4))

    line.sink._seal("test")
    [batch] = line.sink_bench.pipeline.batches
    assert [message.offset() for message in batch.messages[0]] == [1, 2, 4]
    assert batch.parts[0].offsets.last == 4
    [rejected] = batch.rejected
    assert (rejected.offset, rejected.key, rejected.headers) == (3, b"key", [("trace", b"1")])
    assert (rejected.value, rejected.value_size) == (b"x" * 4096, 1_000_001)
    assert batch.size < 100_000
    assert line.stored == {TP: 4}


def test_what_is_too_big_and_comes_again_after_a_pause_is_put_aside_once(line: Line) -> None:
    messages = [*of(TP, 1, 2), KafkaMessage(b"x" * 1_000_001, at=3), *of(TP, 4)]
    line.poll(*messages)
    line.sink._seal("test")
    line.pause()
    line.poll(*messages, *of(TP, 5))

    assert line.sealed == {TP: [1, 2, 4, 5]}
    assert [record.offset for batch in line.sink_bench.pipeline.batches for record in batch.rejected] == [3]


def test_of_several_errors_about_one_message_the_first_counts(line: Line) -> None:
    broken = KafkaMessage(None, at=7, failure=KafkaError(KafkaError._BAD_COMPRESSION))
    line.poll(*of(TP, 6), broken, broken)
    assert line.passed_over == [broken]
    assert line.failures == []


def test_each_message_counts_and_the_first_of_each_partition_gives_the_age(line: Line) -> None:
    line.poll(*of(TP, 0, 1, 2), *of(OTHER, 10))
    line.poll(*of(TP, 2, 3))  # the client went back to 2
    assert line.checkpoints.consumed == 5
    times = set(line.assignments.oldest_uncommitted.values())
    assert sorted(line.assignments.oldest_uncommitted) == [TP, OTHER]
    assert times == {KafkaMessage(None).timestamp()[1] / 1000}


def test_a_commit_in_the_middle_leaves_the_age_of_the_poll_behind_it(line: Line) -> None:
    for first, timestamp in ((0, 1_000), (10, 2_000), (20, 3_000)):
        line.poll(*(KafkaMessage(b"{}", at=first + index, timestamp_ms=timestamp) for index in range(10)))
    line.assignments.committed({TP: 20, LOST: 3})
    assert line.assignments.oldest_uncommitted == {TP: 3.0}
    line.assignments.committed({TP: 30})
    assert line.assignments.oldest_uncommitted == {}
