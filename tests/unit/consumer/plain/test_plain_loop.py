"""The loop of the plain lane, over Kafka's client in memory and a pipeline that delivers by hand."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError
from quixstreams.models import Topic

from app.bad_records.refusals import BadRecords, OnBadRecord
from app.consumer.plain.intake import Intake
from app.consumer.plain.loop import PlainLoop
from app.consumer.plain.transformer import Transformer, stateless_dataframe
from app.delivery.members import Members
from app.errors import FatalError, RetryableError
from app.journal.start_offset import Start
from app.kafka.watch import TopicIds
from app.model import TopicPartition
from app.timings import Timings
from tests.fakes.kafka_message import KafkaMessage
from tests.fakes.manual_member import ManualMember
from tests.fakes.played_client import PlayedClient
from tests.support.world import AWAY, P0, P1

BROKEN = FatalError("uploading s3://lake/x", "access denied")


class Bench:
    def __init__(
        self, on_bad_record: OnBadRecord = "dead-letter", transform: Callable[[Any], Any] | None = None
    ) -> None:
        self.member = ManualMember()
        self.clock = self.member.clock
        self.client = PlayedClient()
        self.client.produce(P0, *[b'{"v":1}'] * 3)
        self.client.produce(P1, *[b'{"v":1}'] * 2)
        self.client.give(P0, P1)
        self.metrics = self.member.runtime.metrics
        client: Any = self.client
        transformer = None
        if transform:
            built = stateless_dataframe().apply(transform)
            topic = Topic("sensors", value_deserializer="json", key_deserializer="str")
            form = {"values_are_json": True, "keys_are_text": True}
            transformer = Transformer(topic, built, self.member.flow.buffer.limits, **form, clock=self.clock)
        intake = Intake(1_000, BadRecords(on_bad_record, lambda _: None), transformer=transformer)
        self.loop = PlainLoop(client, intake, Members.of_one("sensors", self.member), self._turn)
        self.fence, self.deliver = self.member.fence, self.member.deliver
        self._left = 0
        self._then: Callable[[], None] = self.loop.stop

    def _turn(self, _: bool) -> None:
        self._left -= 1
        if self._left <= 0:
            self._then()

    def run(self, *steps: Callable[[], None] | None) -> None:
        """Run the loop to its end: two turns, the first step, two turns, the next one and so on."""
        waiting = list(steps)

        def go_on() -> None:
            self._left = 2
            if not waiting:
                self.loop.stop()
            elif step := waiting.pop(0):
                step()

        self._left, self._then = 2, go_on
        self.is_all_written = self.loop.run("sensors")

    def wait(self) -> None:
        self.clock.advance(21)

    def fill(self) -> None:
        self.member.flow.share.hold(2_000_000)

    def empty(self) -> None:
        self.member.flow.share.hold(-2_000_000)

    @property
    def taken(self) -> dict[TopicPartition, list[int]]:
        found: dict[TopicPartition, list[int]] = {}
        for piece in self.member.pieces:
            found.setdefault(piece.tp, []).extend(message.offset() for message in piece.messages)
        return found


@pytest.fixture
def bench() -> Bench:
    return Bench()


# --- from the claim to the commit -----------------------------------------------------------------------------------


def test_what_is_read_is_in_the_lake_and_committed_at_the_end(bench: Bench) -> None:
    bench.run()
    assert bench.taken == {P0: [0, 1, 2], P1: [0, 1]}
    assert bench.client.committed == {P0: 3, P1: 2}
    assert bench.client.is_closed
    assert bench.is_all_written


def test_what_was_fetched_before_a_rebalance_is_dropped_for_the_claim_says_where_to_begin(bench: Bench) -> None:
    bench.member.held_back = {P0}
    late: Any = KafkaMessage(b'{"v":1}', at=7)
    consume = bench.client.consume
    bench.client.consume = lambda *given: [late, *consume(*given)]  # type: ignore[method-assign]

    def admit() -> None:
        bench.client.consume = consume  # type: ignore[method-assign]
        bench.member.admit()

    bench.run(admit)
    assert bench.taken == {P0: [0, 1, 2], P1: [0, 1]}


def test_nothing_is_read_before_it_is_claimed_and_then_from_where_the_log_ends(bench: Bench) -> None:
    bench.member.held_back = {P0, P1}
    bench.member.starts = {P0: Start(1)}

    def admit() -> None:
        assert bench.client.positions == {}
        assert bench.loop.consumption().unclaimed == {P0, P1}
        bench.member.admit(P0)

    bench.run(admit, bench.member.admit, None)
    assert bench.taken == {P0: [1, 2], P1: [0, 1]}
    assert bench.client.calls[:2] == ["assign nothing", "assign 0 at 1"]
    assert "assign 0 at 3, 1 at 0" in bench.client.calls, "the other one stays where it is"


@pytest.mark.parametrize("fails", [True, False])
def test_an_offset_that_a_tool_has_set_is_marked_before_anything_is_read(bench: Bench, *, fails: bool) -> None:
    bench.member.starts = {P0: Start(1, is_set=True)}
    bench.client.commit_errors = [KafkaError.NOT_COORDINATOR] if fails else []
    if fails:
        with pytest.raises(RetryableError, match="committing the first offsets of partitions"):
            bench.run()
        assert bench.taken == {}
    else:
        bench.run()
        assert bench.client.commits[0] == {P0: 1}
        assert bench.client.calls[:3] == ["assign nothing", "commit and wait", "assign 0 at 1, 1 at 0"]


def test_offsets_are_committed_as_soon_as_their_batch_is_in_the_lake(bench: Bench) -> None:
    seen = []

    def look() -> None:
        seen.append(bench.client.committed)

    bench.run(look, bench.deliver, look)
    assert seen == [{P0: 0, P1: 0}, {P0: 3, P1: 2}]
    assert bench.client.calls.count("commit and wait") == 0, "at the end there is nothing left to copy"


def test_a_commit_that_failed_is_repeated_after_a_minute_or_with_the_next_one(bench: Bench) -> None:
    def fail() -> None:
        bench.deliver()
        bench.client.commit_errors = [KafkaError.NOT_COORDINATOR]

    def look() -> None:
        assert bench.client.committed == {P0: 0, P1: 0}
        bench.clock.advance(61)

    bench.run(fail, look, None)
    assert bench.client.committed == {P0: 3, P1: 2}


def test_what_comes_into_the_lake_amid_a_commit_is_not_taken_for_old_later(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench.metrics, "committed", lambda _: bench.deliver())

    def look() -> None:
        assert bench.client.committed == {P0: 3, P1: 2}
        assert bench.loop.consumption().oldest == {}

    bench.run(None, look)


def test_messages_without_rows_are_handed_over_with_their_offsets_alone() -> None:
    """So that the log has them before they are committed."""
    bench = Bench("skip")
    bench.client.records = {P0: [KafkaMessage(b"x" * 2_000, at=at) for at in range(3)]}
    bench.run()
    assert [(piece.end, piece.records) for piece in bench.member.pieces] == [(0, 0), (1, 0), (2, 0)]
    assert bench.client.committed[P0] == 3


def test_gaps_are_no_loss(bench: Bench) -> None:
    """Control records of transactions, and what compaction has deleted."""
    bench.client.produce(P0, b"{}", first=10)
    bench.run()
    assert bench.taken[P0] == [0, 1, 2, 10]
    assert bench.client.committed[P0] == 11


@pytest.mark.parametrize(
    ("topic_id", "cause"),
    [
        ("one", "returned offset 1 instead of 3 or a later one"),
        ("two", "has the id two, and had one when it was claimed: the topic was recreated"),
        (None, "returned offset 1 instead of 3 or a later one"),
    ],
)
def test_an_offset_that_was_read_already_ends_the_process(bench: Bench, topic_id: str | None, cause: str) -> None:
    def ask(_: str) -> str:
        if topic_id is None:
            raise AWAY
        return topic_id

    def go_back() -> None:
        bench.client.positions[P0] = 1

    topic_ids = TopicIds(ask)
    topic_ids.claimed(P0, "one")
    bench.member.group.topic_ids = topic_ids  # type: ignore[misc] # that of the fake may be set
    with pytest.raises(RetryableError, match=cause):
        bench.run(go_back, None)
    assert bench.client.is_closed


# --- an edited transform() ------------------------------------------------------------------------------------------


@pytest.fixture
def slow() -> Bench:
    """Its ``transform()`` takes 0.6 s for a record."""

    def function(value: Any) -> Any:
        made.clock.advance(0.6)
        return value

    made = Bench(transform=function)
    return made


def test_what_a_slow_function_leaves_of_a_turn_is_read_again_once(slow: Bench) -> None:
    slow.run(None, None)
    assert slow.taken == {P0: [0, 1, 2], P1: [0, 1]}
    assert slow.client.calls.count("seek 0 to 2") == 1
    assert slow.client.committed == {P0: 3, P1: 2}
    assert slow.is_all_written


def test_a_stop_waits_for_one_turn_of_a_slow_function(slow: Bench) -> None:
    slow.run()
    assert slow.taken == {P0: [0, 1]}
    assert slow.client.committed[P0] == 2
    assert slow.is_all_written


def test_a_message_that_cannot_be_decompressed_is_not_passed_over_before_what_is_left(slow: Bench) -> None:
    def fail() -> None:
        if slow.client.positions:
            slow.client.failures = [KafkaMessage(None, at=3, failure=KafkaError(KafkaError._BAD_COMPRESSION))]

    slow.client.on_poll = fail
    slow.run()
    assert slow.taken == {P0: [0, 1]}
    assert slow.member.rejected == []
    assert slow.client.committed[P0] == 2


# --- bad messages ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "big",
    [
        KafkaMessage(b"x" * 1_001, at=1),
        KafkaMessage(b"{}", b"k" * 999, at=1),
        KafkaMessage(b"{}", b"key", at=1, raw_headers=[("name", b"v" * 500), ("other", b"v" * 487)]),
    ],
    ids=["value", "key", "headers"],
)
def test_a_message_that_is_too_big_goes_to_the_dead_letter_in_its_turn(bench: Bench, big: KafkaMessage) -> None:
    fits = KafkaMessage(b"{}", b"k" * 500, at=2, raw_headers=[("name", b"v" * 494)])
    bench.client.records[P0][1:] = [big, fits]
    bench.run()
    assert bench.taken[P0] == [0, 2]
    (rejected,) = bench.member.rejected
    assert rejected.offset == 1
    assert "its message has 1,001 bytes, and the limit with this memory is 1,000" in rejected.reason


def test_a_message_that_cannot_be_decompressed_is_passed_over(bench: Bench) -> None:
    def fail() -> None:
        broken = KafkaMessage(None, at=3, failure=KafkaError(KafkaError._BAD_COMPRESSION))
        bench.client.failures = [broken, broken]

    bench.run(fail, None)
    assert [each.offset for each in bench.member.rejected] == [3]
    assert "seek 0 to 4" in bench.client.calls
    assert bench.client.committed[P0] == 4


@pytest.mark.parametrize("code", [KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.UNKNOWN_TOPIC_OR_PART])
def test_a_refusal_ends_the_process_after_what_came_with_it(bench: Bench, code: int) -> None:
    bench.client.failures = [KafkaMessage(None, failure=KafkaError(code))]
    with pytest.raises(FatalError):
        bench.run()
    assert bench.client.is_closed


def test_an_error_that_passes_is_no_reason_to_end(bench: Bench) -> None:
    bench.client.failures = [KafkaMessage(None, failure=KafkaError(KafkaError._TRANSPORT))]
    bench.run()
    assert bench.client.committed == {P0: 3, P1: 2}


# --- rebalances -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("leave", "seconds"), [(PlayedClient.take_away, Timings().revoke_seconds), (PlayedClient.lose, 0)]
)
def test_what_cannot_be_written_in_time_is_left_to_the_next_owner(
    bench: Bench, leave: Callable[[PlayedClient], None], seconds: float
) -> None:
    begin = bench.clock.now
    bench.member.flow.obstacle = AWAY
    bench.member.flow.on_wait = lambda: None
    bench.run(lambda: leave(bench.client), bench.deliver, None)
    assert bench.client.committed == {P0: 0, P1: 0}, "also where it is delivered late"
    assert bench.clock.now - begin == pytest.approx(seconds, abs=2)


# --- a full buffer --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("of_message", [{"raw_headers": [("n", b"v" * 900)]}, {"raw_key": b"k" * 900}])
def test_keys_and_headers_fill_the_buffer_and_bound_a_poll_whichever_messages_have_them(
    bench: Bench, of_message: dict[str, Any]
) -> None:
    asked: list[int] = []
    consume = bench.client.consume

    def noting(num_messages: int, timeout: float) -> list[Any]:
        asked.append(num_messages)
        assert num_messages * 450 < 1_000_000 - bench.member.flow.buffer.held_bytes, (
            "it would take more than the buffer has room for"
        )
        return consume(num_messages, timeout)

    def look() -> None:
        assert bench.member.flow.buffer.held_bytes > 450 * bench.loop.consumption().consumed

    bench.client.consume = noting  # type: ignore[method-assign]
    # Every other message, but none of those that come first in a poll.
    odd = [KafkaMessage(b"{}", at=at, **(of_message if at % 2 else {})) for at in range(100)]
    bench.client.records = {P0: odd}
    bench.run(look, None)
    assert asked


def test_a_full_buffer_pauses_after_a_while_and_goes_on_polling(bench: Bench) -> None:
    """The group expects it."""
    polls = []

    def fill() -> None:
        bench.fill()
        bench.client.produce(P0, b"{}")
        bench.client.on_poll = lambda: polls.append(bench.client.paused.copy())

    def wait() -> None:
        assert not bench.loop.consumption().is_paused, "a pause drops what the client has fetched ahead"
        polls.clear()
        bench.wait()

    def empty() -> None:
        assert polls
        assert all(each == {P0, P1} for each in polls)
        assert bench.loop.consumption().is_paused
        bench.empty()

    bench.run(fill, wait, empty, None)
    assert bench.client.paused == set()
    assert bench.taken[P0] == [0, 1, 2, 3]


def test_a_partition_that_is_claimed_in_a_pause_waits_too(bench: Bench) -> None:
    bench.member.held_back = {P1}

    def look() -> None:
        assert bench.client.paused == {P0, P1}
        bench.empty()

    bench.run(bench.fill, bench.wait, bench.member.admit, look, None)
    assert bench.taken[P1] == [0, 1]


def test_nothing_is_paused_without_partitions(bench: Bench) -> None:
    def look() -> None:
        assert not bench.loop.consumption().is_paused

    bench.run(bench.fill, bench.wait, bench.client.take_away, look)


# --- fences ---------------------------------------------------------------------------------------------------------


def test_it_ends_at_the_fourth_time(bench: Bench) -> None:
    with pytest.raises(RetryableError, match="closed by another member"):
        bench.run(*[bench.fence] * 4, bench.wait, None)
    assert len(bench.member.closed) == 4


def test_logs_that_are_closed_now_and_then_are_no_end(bench: Bench) -> None:
    bench.run(*[step for _ in range(8) for step in (bench.fence, lambda: bench.clock.advance(301))])
    assert len(bench.member.closed) == 9
    assert bench.client.committed == {P0: 3, P1: 2}


# --- the end --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_stopping", [False, True])
def test_a_pipeline_that_failed_ends_the_loop_after_what_was_delivered_is_committed(
    bench: Bench, is_stopping: bool
) -> None:
    def fail() -> None:
        bench.deliver()
        bench.member.flow.fail(BROKEN)

    bench.member.flow.on_wait = fail
    with pytest.raises(FatalError, match="access denied"):
        bench.run(*([] if is_stopping else [fail, lambda: pytest.fail("it goes on")]))
    assert bench.client.committed == {P0: 3, P1: 2}
    assert bench.client.is_closed


def test_a_stop_before_the_first_turn_is_a_stop(bench: Bench) -> None:
    bench.loop.stop()
    bench.loop.run("sensors")
    assert bench.client.is_closed


def test_a_stop_waits_no_longer_than_it_may(bench: Bench) -> None:
    begin = bench.clock.now
    bench.member.flow.on_wait = lambda: None
    bench.run()
    assert not bench.is_all_written
    assert bench.client.committed == {P0: 0, P1: 0}
    assert bench.clock.now - begin == pytest.approx(Timings().stop_seconds, abs=2)


def test_a_loss_is_logged_as_an_error_and_counted(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.member.starts = {P0: Start(2, "offsets 0 to 1 are gone", is_loss=True)}
    bench.run()
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert errors == ["sensors[0]: offsets 0 to 1 are gone"]
    assert [what for _, what in bench.metrics.counts().losses] == errors
