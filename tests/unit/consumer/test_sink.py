"""The sink between the consumer and the pipeline: when it seals, what a flush waits for, how much it holds."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from quixstreams.context import set_message_context
from quixstreams.models import MessageContext
from quixstreams.sinks import SinkBackpressureError

from app.bad_records.refusals import NotARowError
from app.errors import FatalError
from app.model import Rejected, Row
from tests.fakes.kafka_message import KafkaMessage
from tests.support.batches import NOON, TP
from tests.unit.consumer.sink_bench import AWAY, BROKEN, OTHER, Bench


@pytest.fixture
def bench() -> Bench:
    return Bench()


# --- sealing --------------------------------------------------------------------------------------------------------


def test_a_batch_is_sealed_when_enough_rows_wait_and_the_writer_is_idle(bench: Bench) -> None:
    bench.consume(0, 1)
    assert bench.sealed == []
    bench.consume(2)
    assert bench.sealed == [{TP: [0, 1, 2]}]
    assert bench.pipeline.batches[0].reason == "3 rows"


def test_rows_of_all_partitions_count_together_and_stay_apart(bench: Bench) -> None:
    bench.consume(7)
    bench.consume(0, 1, tp=OTHER)
    assert bench.sealed == [{TP: [7], OTHER: [0, 1]}]


def test_while_the_writer_is_busy_the_batch_grows(bench: Bench) -> None:
    bench.pipeline.is_idle = False
    bench.consume(*range(10))
    assert bench.sealed == []
    bench.pipeline.is_idle = True
    bench.consume(10)
    assert bench.sealed == [{TP: list(range(11))}]


def test_a_flush_seals_what_is_left(bench: Bench) -> None:
    bench.after(1, bench.pipeline.deliver_all)
    bench.consume(0)
    bench.sink.flush()
    assert bench.sealed == [{TP: [0]}]
    assert bench.pipeline.batches[0].reason == "checkpoint"


def test_rows_keep_value_key_and_timestamp(bench: Bench) -> None:
    bench.add(4, value={"a": [1]})
    bench.after(0, bench.pipeline.deliver_all)
    bench.sink.flush()
    assert bench.pipeline.batches[0].rows[0][0] == Row({"a": [1]}, "key", NOON, 4, [])


def test_a_row_holds_its_message_unless_that_has_become_several_or_another_one_is_processed(bench: Bench) -> None:
    messages = [KafkaMessage(b"{}", b"k", at) for at in range(4)]
    for message, offsets in zip(messages, [(0,), (1, 1, 1), (), (2, 3)], strict=True):
        bench.sink.begin_record(message)
        bench.add(*offsets)
    bench.sink.begin_record()
    bench.add(4)
    bench.after(0, bench.pipeline.deliver_all)
    bench.sink.flush()
    held = [(row.offset, row.message and row.message.offset()) for row in bench.pipeline.batches[0].rows[0]]
    assert held == [(0, 0), (1, None), (1, None), (1, None), (2, None), (3, 3), (4, None)]


def test_rows_of_one_offset_stay_in_one_batch(bench: Bench) -> None:
    bench.add(0)
    bench.add(1, 1, 1, 1)
    assert bench.sealed == []
    bench.sink.turn()
    assert bench.sealed == [{TP: [0, 1, 1, 1, 1]}]


# --- flush ----------------------------------------------------------------------------------------------------------


def test_a_flush_without_rows_returns_at_once(bench: Bench) -> None:
    bench.sink.flush()
    assert bench.sealed == []
    assert bench.pipeline.waits == 0


def test_a_flush_waits_for_all_batches_also_those_sealed_before_it(bench: Bench) -> None:
    bench.consume(0, 1, 2, 3)
    seen: list[int] = []

    def deliver_one() -> None:
        bench.pipeline.delivered += 1
        seen.append(bench.pipeline.delivered)

    bench.pipeline.on_wait = deliver_one
    bench.sink.flush()
    assert seen == [1, 2]


@pytest.mark.parametrize("rows", [0, 2])
def test_a_flush_after_a_failure_raises_it_each_time(bench: Bench, rows: int) -> None:
    bench.consume(*range(rows))
    bench.pipeline.failure = BROKEN
    for _ in range(3):
        with pytest.raises(FatalError, match="access denied"):
            bench.sink.flush()


def test_a_failure_in_the_moment_of_delivery_does_not_pass_unseen(bench: Bench) -> None:
    def deliver_and_fail() -> None:
        bench.pipeline.deliver_all()
        bench.pipeline.failure = BROKEN

    bench.consume(0)
    bench.after(1, deliver_and_fail)
    with pytest.raises(FatalError):
        bench.sink.flush()


def test_a_turn_of_the_loop_raises_the_failure(bench: Bench) -> None:
    bench.pipeline.failure = BROKEN
    with pytest.raises(FatalError):
        bench.sink.turn()


def test_the_last_flush_shows_whether_it_succeeded(bench: Bench) -> None:
    bench.consume(0)
    bench.pipeline.obstacle = AWAY
    with pytest.raises(SinkBackpressureError):
        bench.sink.flush()
    assert not bench.sink.last_flush_ok
    bench.pipeline.deliver_all()
    bench.sink.flush()
    assert bench.sink.last_flush_ok


# --- memory ---------------------------------------------------------------------------------------------------------


def test_the_buffer_is_full_by_bytes_of_waiting_rows() -> None:
    bench = Bench(batch_size=1_000_000, max_buffer_bytes=1_000_000)
    bench.add(*range(40), value={"text": "x" * 20_000}, size=20_000)
    assert not bench.sink.is_full
    bench.add(*range(40, 60), value={"text": "x" * 20_000}, size=20_000)
    assert bench.sink.is_full


def test_rows_in_the_pipeline_count_until_they_are_staged() -> None:
    bench = Bench(max_buffer_bytes=1_000_000)
    bench.consume(0)
    bench.pipeline.held_bytes = 999_999
    assert bench.sink.is_full
    bench.pipeline.held_bytes = 0
    assert not bench.sink.is_full


def test_a_sealed_batch_takes_its_bytes_along() -> None:
    bench = Bench(max_buffer_bytes=100_000)
    bench.add(*range(10), value={"text": "x" * 20_000}, size=20_000)
    bench.after(0, bench.pipeline.deliver_all)
    bench.sink.flush()
    assert bench.pipeline.batches[0].reason == "buffer full"
    assert 200_000 < bench.pipeline.batches[0].size < 220_000
    assert not bench.sink.is_full


@pytest.mark.parametrize("drop", ["unassign", "on_paused", "assign"])
def test_dropped_rows_no_longer_take_memory(drop: str) -> None:
    bench = Bench(batch_size=1_000_000, max_buffer_bytes=100_000)
    bench.add(*range(10), value={"text": "x" * 20_000}, size=20_000)
    drops: dict[str, Callable[[], object]] = {
        "unassign": lambda: bench.sink.unassign([TP]),
        "on_paused": bench.sink.on_paused,
        "assign": lambda: bench.sink.assign([TP]),
    }
    drops[drop]()
    assert not bench.sink.is_full


# --- records that are none ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "kind"),
    [("text", "str"), ([{"a": 1}], "list"), (7, "int"), (b"x", "bytes"), (False, "bool")],
)
def test_a_value_that_is_no_dict_is_refused(bench: Bench, value: object, kind: str) -> None:
    with pytest.raises(NotARowError, match=f"^its value is of type {kind}, and a row") as caught:
        bench.add(41, tp=OTHER, value=value)
    assert "transform()" in caught.value.hint


def test_the_error_of_a_tombstone_says_that_its_value_is_null(bench: Bench) -> None:
    set_message_context(MessageContext(TP.topic, TP.partition, 41, 0))
    with pytest.raises(NotARowError, match="its value is null"):
        bench.sink.add(None, "key", NOON, [], TP.topic, TP.partition, 41)


def test_a_message_that_the_memory_is_too_small_for_is_refused(bench: Bench) -> None:
    bench.add(40, size=1_000_000)
    with pytest.raises(NotARowError, match="its message has 1,000,001 bytes, and 1,000,000 are the most") as caught:
        bench.add(41, size=1_000_001)
    assert "MAX_BUFFER_MB" in caught.value.hint


def rejected(offset: int) -> Rejected:
    return Rejected(TP, offset, NOON, b"key", b"{", None, "no JSON")


def test_rejected_records_travel_with_the_rows_of_their_offsets(bench: Bench) -> None:
    bench.after(0, bench.pipeline.deliver_all)
    bench.add(40)
    bench.sink.begin_record()
    bench.sink.reject(rejected(41), "Mend it")
    bench.sink.flush()
    (batch,) = bench.pipeline.batches
    assert bench.sealed == [{TP: [40]}]
    assert batch.rejected == (rejected(41),)
    assert batch.parts[0].offsets.last == 41


def test_rejected_records_alone_make_a_batch_too(bench: Bench) -> None:
    bench.after(0, bench.pipeline.deliver_all)
    bench.sink.reject(rejected(41), "Mend it")
    bench.sink.flush()
    assert [batch.rejected for batch in bench.pipeline.batches] == [(rejected(41),)]


def test_rejected_records_are_not_doubled_by_a_pause(bench: Bench) -> None:
    """After back-pressure what was sealed comes again."""
    bench.sink.reject(rejected(41), "Mend it")
    bench.pipeline.obstacle = AWAY
    with pytest.raises(SinkBackpressureError):
        bench.sink.flush()
    bench.sink.reject(rejected(41), "Mend it")
    bench.sink.reject(rejected(42), "Mend it")
    bench.after(0, bench.pipeline.deliver_all)
    bench.sink.flush()
    assert [[one.offset for one in batch.rejected] for batch in bench.pipeline.batches] == [[41], [42]]


def test_the_rows_of_a_record_that_failed_half_way_are_discarded(bench: Bench) -> None:
    bench.add(40, 41, 41)
    bench.sink.discard(TP, 41)
    bench.after(0, bench.pipeline.deliver_all)
    bench.sink.flush()
    assert bench.sealed == [{TP: [40]}]


def test_discarding_from_a_partition_that_is_gone_does_nothing(bench: Bench) -> None:
    bench.sink.unassign([TP])
    bench.sink.discard(TP, 41)
    bench.sink.flush()
    assert bench.sealed == []


def test_under_load_batches_grow_instead_of_multiplying() -> None:
    bench = Bench(gather_seconds=1.0)
    bench.consume(0, 1, 2, 3)
    assert bench.sealed == []  # BATCH_SIZE is 3, but a second has not passed
    bench.clock.now += 1.0
    bench.consume(4)
    assert bench.sealed == [{TP: [0, 1, 2, 3, 4]}]
    bench.pipeline.deliver_all()
    bench.consume(5, 6, 7)
    assert len(bench.sealed) == 1


def test_the_key_of_a_message_that_is_kept_takes_memory_beside_that_of_its_row() -> None:
    plain, heavy = Bench(), Bench()
    for bench, key in ((plain, b"k"), (heavy, b"k" * 5_000)):
        bench.sink.begin_record(KafkaMessage(b"{}", key, 1))
        bench.add(1)
    assert heavy.sink.held_bytes - plain.sink.held_bytes == len(b"k" * 5_000) - 1


def test_the_headers_of_a_rejected_record_take_memory() -> None:
    plain, heavy = Bench(), Bench()
    plain.sink.reject(rejected(1), "Mend it")
    heavy.sink.reject(replace(rejected(1), headers=[("h", b"x" * 5_000)]), "Mend it")
    assert heavy.sink.held_bytes - plain.sink.held_bytes > len(b"x" * 5_000)


def test_an_eighth_of_the_buffer_is_a_portion_of_a_batch_even_if_the_writer_is_busy() -> None:
    bench = Bench(batch_size=1_000_000, max_buffer_bytes=1_000_000)
    bench.pipeline.is_idle = False
    bench.add(*range(5), value={"text": "x" * 20_000}, size=20_000)
    bench.sink.turn()
    assert bench.sealed == []
    bench.add(*range(5, 10), value={"text": "x" * 20_000}, size=20_000)
    bench.sink.turn()
    assert bench.sealed == [{TP: list(range(10))}]
    assert bench.pipeline.batches[0].reason is None
    assert not bench.sink.is_full


def test_rows_of_a_batch_that_the_pipeline_has_ended_count_no_more() -> None:
    bench = Bench(batch_size=3, max_buffer_bytes=8_000, gather_seconds=1.0, target_file_bytes=2**24)
    bench.add(0, 1, 2, value={"text": "x" * 500})
    bench.sink.turn()
    assert bench.pipeline.batches[0].reason is None
    bench.pipeline.closed_portion = 1
    bench.add(3)
    bench.clock.advance(9.0)
    bench.sink.turn()
    bench.clock.advance(9.0)
    bench.sink.turn()
    assert len(bench.pipeline.batches) == 1, "one row is not worth a batch"


def test_a_flush_waits_for_the_portions_of_its_batch() -> None:
    bench = Bench(batch_size=1_000_000, max_buffer_bytes=1_000)
    bench.add(0, value={"text": "x" * 200})
    bench.sink.turn()
    bench.after(0.0, bench.pipeline.deliver_all)
    bench.sink.flush()
    assert [portion.reason for portion in bench.pipeline.batches] == [None, "checkpoint"]


def test_records_without_rows_are_in_the_next_portion_with_their_offset_alone() -> None:
    bench = Bench()
    bench.assignments.expect(TP, 7)
    bench.sink.turn()
    assert bench.pipeline.batches == [], "how far was read is no reason to end a batch"
    bench.after(0.0, bench.pipeline.deliver_all)
    bench.sink.flush()
    assert [(portion.parts, portion.ends) for portion in bench.pipeline.batches] == [((), {TP: 6})]
    bench.sink.flush()
    assert len(bench.pipeline.batches) == 1, "nothing more was read"
    bench.add(8)
    bench.assignments.expect(TP, 10)
    bench.sink.flush()
    assert bench.pipeline.batches[-1].ends == {TP: 9}


def test_with_a_size_that_is_wanted_rows_wait_until_no_more_come() -> None:
    bench = Bench(gather_seconds=1.0, target_file_bytes=2**24)
    for offset in range(6):
        bench.consume(offset)
        bench.clock.advance(0.9)
    assert bench.sealed == []
    bench.clock.advance(0.2)
    bench.sink.turn()
    assert bench.sealed == [{TP: list(range(6))}]
    assert bench.pipeline.batches[0].reason == "6 rows, and no more come"
