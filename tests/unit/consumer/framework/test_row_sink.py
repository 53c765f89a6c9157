"""The sink of the framework's lane, over a pipeline that delivers by hand; the test does what quixstreams does."""

from collections.abc import Callable
from threading import Lock
from types import MappingProxyType
from typing import Any

import pytest
from quixstreams.models import Topic
from quixstreams.sinks import SinkBackpressureError

from app.bad_records.refusals import NotARowError, Refusal, TooBigError
from app.consumer.framework.sink import RowSink
from app.errors import DataError, FatalError, RetryableError
from app.journal.journal import FencedError
from app.journal.start_offset import Start
from app.model import Rejected
from app.reason_texts import Reason
from tests.fakes.kafka_message import KafkaMessage
from tests.support.world import AWAY, P0, P1
from tests.unit.consumer.framework.row_sink_bench import NOON, Bench, refused


@pytest.fixture
def bench() -> Bench:
    return Bench()


# --- a flush --------------------------------------------------------------------------------------------------------


def test_a_flush_claims_and_brings_rows_and_ends_into_the_lake(bench: Bench) -> None:
    bench.rows(0, 1)
    bench.rows(7, tp=P1)
    bench.sink.flush()
    assert sorted(bench.taken) == [(0, 0), (0, 1), (1, 7)]
    assert bench.ends == {P0: 1, P1: 7}
    assert bench.member.reasons == ["checkpoint"]
    consumption = bench.sink.consumption(2)
    assert (consumption.due_in, consumption.held_bytes) == (None, 0)


def test_an_offset_that_a_tool_has_set_is_marked_before_a_row_is_written(bench: Bench) -> None:
    bench.member.starts = {P0: Start(3, is_set=True)}
    bench.rows(3)
    bench.rows(0, tp=P1)
    bench.sink.flush()
    assert bench.commits == [({P0: 3}, 0)]


def test_a_row_that_comes_late_is_no_repetition(bench: Bench) -> None:
    bench.member.starts = {P0: Start(3)}
    bench.rows(2, 3)
    bench.begin(4)
    bench.sink.add({"v": "late"}, b"k", NOON, [], *P0, 1)
    bench.sink.message_processed(P0, 4)
    bench.sink.flush()
    assert bench.taken == [(0, 3), (0, "late")]


def test_a_flush_that_takes_too_long_goes_back_without_a_pause(bench: Bench) -> None:
    bench.member.flow.obstacle = AWAY
    bench.member.flow.on_wait = lambda: None
    bench.rows(0)
    with pytest.raises(SinkBackpressureError) as raised:
        bench.sink.flush()
    assert raised.value.retry_after == 0
    former = bench.member.last
    assert former.is_over
    bench.member.flow.on_wait = bench.member.deliver
    bench.rows(0)
    bench.sink.flush()
    assert bench.member.portions[-1].assignment is not former


@pytest.mark.parametrize(
    ("call", "told"), [(RowSink.on_paused, "another sink of transform"), (RowSink.flush, "no route to host")]
)
def test_where_topics_are_aligned_the_process_ends_in_place_of_going_back(
    call: Callable[[RowSink], None], told: str
) -> None:
    bench = Bench(can_go_back=False)
    bench.member.flow.obstacle = AWAY
    bench.member.flow.on_wait = lambda: None
    bench.rows(0)
    with pytest.raises(RetryableError, match=f"{told}.*cannot go back"):
        call(bench.sink)
    assert all(portion.assignment.is_over for portion in bench.member.portions)


def test_the_last_flush_of_a_stop_has_no_second_try(bench: Bench) -> None:
    begin = bench.clock.now
    bench.member.flow.on_wait = lambda: None
    bench.rows(0)
    bench.sink.stop()
    with pytest.raises(RetryableError, match="the next owner of the partitions reads them again"):
        bench.sink.flush()
    assert bench.clock.now - begin == pytest.approx(bench.member.runtime.timings.stop_seconds, abs=2)


def test_a_log_that_is_closed_again_and_again_ends_the_process(bench: Bench) -> None:
    for _ in range(3):
        bench.rows(0)
        bench.member.flow.on_wait = bench.member.fence
        with pytest.raises(SinkBackpressureError):
            bench.sink.flush()
    bench.rows(0)
    with pytest.raises(RetryableError, match="closed"):
        bench.sink.flush()


def test_a_log_that_is_gone_with_its_table_ends_the_process(bench: Bench) -> None:
    bench.rows(0)
    bench.member.flow.on_wait = lambda: bench.member.fence(FencedError("the log is missing: the table was deleted"))
    with pytest.raises(RetryableError, match="is missing"):
        bench.sink.flush()


# --- a revocation ---------------------------------------------------------------------------------------------------


def test_a_revocation_that_fails_has_a_plain_error_and_leaves_nothing_to_the_next_assignment(bench: Bench) -> None:
    bench.member.flow.on_wait = lambda: None
    bench.rows(0)
    assert isinstance(bench.flush_while_revoked(), RetryableError)
    assert bench.sink.consumption(1).tps == ()
    bench.member.flow.on_wait = bench.member.deliver
    former = len(bench.member.portions)
    bench.rows(3, tp=P1)
    bench.sink.flush()
    assert [(piece.tp, piece.end) for piece in bench.member.portions[former].pieces] == [(P1, 3)]


def test_a_message_that_comes_again_is_claimed_again(bench: Bench) -> None:
    bench.rows(0, 1)
    bench.not_deserialized(2)
    bench.sink.flush()
    bench.member.starts = {P0: Start(0, replayed_to=2)}
    bench.rows(1)
    bench.sink.flush()
    bench.not_deserialized(2)
    bench.rows(3)
    bench.sink.flush()
    assert bench.taken == [(0, 0), (0, 1), (0, 3)]
    assert bench.rejected == [2]


@pytest.mark.parametrize("is_noticed", [True, False])
def test_messages_that_come_again_without_a_flush_in_between_become_rows_once(bench: Bench, is_noticed: bool) -> None:
    """As after a revocation in which another sink failed: quixstreams then does not flush this one."""
    bench.rows(0)
    bench.sink.flush()
    bench.rows(1)
    bench.process(2, error=True)
    bench.rows(3)
    if is_noticed:
        bench.sink.tick(is_stable=False)
    bench.process(1, {"v": 1}, {"v": "more"})
    bench.process(2, error=True)
    bench.rows(3)
    bench.sink.flush()
    assert bench.taken == [(0, 0), (0, 1), (0, "more"), (0, 3)]
    assert bench.rejected == [2]


# --- bad records ----------------------------------------------------------------------------------------------------


def test_the_rows_that_a_failing_message_gave_are_taken_out(bench: Bench) -> None:
    bench.rows(0)
    bench.process(1, {"v": 1}, {"v": 2}, error=True)
    bench.sink.flush()
    assert (bench.taken, bench.rejected, bench.ends) == ([(0, 0)], [1], {P0: 1})


def test_rows_that_a_lookup_gave_late_stay_where_the_present_message_fails(bench: Bench) -> None:
    bench.begin(5)
    bench.sink.add({"v": "late"}, b"k", NOON, [], *P0, 2)
    bench.sink.reject(refused(5), is_deserialized=True)
    bench.sink.message_processed(P0, 5)
    bench.sink.flush()
    assert (bench.taken, bench.rejected) == ([(0, "late")], [5])


def test_bad_records_alone_are_flushed_by_a_tick(bench: Bench) -> None:
    bench.not_deserialized(0)
    bench.sink.tick(is_stable=True)
    assert bench.rejected == []
    bench.clock.advance(5.1)
    bench.sink.tick(is_stable=True)
    assert (bench.rejected, bench.ends) == ([0], {P0: 0})


def test_many_bad_records_do_not_wait_for_a_tick() -> None:
    bench = Bench(max_buffer_bytes=8 * 1_000)
    for offset in range(20):
        bench.not_deserialized(offset)
    assert bench.rejected
    assert bench.sink.consumption(1).held_bytes < 8 * 1_000


def test_what_comes_before_a_bad_record_that_ends_the_process_is_in_the_lake() -> None:
    bench = Bench(on_bad_record="fail")
    bench.rows(0)
    bench.begin(1)
    bench.sink.add({"v": 1}, b"k", NOON, [], *P0, 1)
    bench.begin(1)  # another record of the same message
    with pytest.raises(DataError):
        bench.sink.reject(refused(1), is_deserialized=True)
    assert (bench.taken, bench.ends) == ([(0, 0)], {P0: 0})


def test_a_row_has_its_message_as_it_came_if_that_became_no_other_row(bench: Bench) -> None:
    bench.process(0, {"v": 0})
    bench.process(1, {"v": 1}, {"v": 2})
    bench.sink.flush()
    kept = [row.message and row.message.value() for piece in bench.member.pieces for row in piece.rows]
    assert kept == [b"raw 0", None, None]


def test_a_value_that_contains_itself_is_no_row(bench: Bench) -> None:
    value: dict[str, Any] = {"n": 1}
    value["children"] = [{"parent": value}]
    bench.begin(0)
    with pytest.raises(NotARowError, match="contains itself"):
        bench.sink.add(value, b"k", NOON, [], *P0, 0)


def test_what_was_given_out_stays_what_it_was_while_transform_goes_on_changing_it(bench: Bench) -> None:
    raw, inner, numbers, lock = bytearray(b"0"), {"n": 0}, [0], Lock()
    value: dict[str, Any] = {"v": {"nested": [[inner]], "twice": [numbers, numbers], "pair": (numbers, 0)}}
    value |= {"raw": raw, "view": memoryview(raw), "seen": MappingProxyType(inner), "set": set(), "lock": lock}
    key, headers = {"k": numbers}, [("h", "0")]
    for n in range(2):
        value["n"] = inner["n"] = numbers[0] = n
        raw[:], headers[0] = b"%d" % n, ("h", str(n))
        value["set"].add(n)
        bench.begin(2 * n)
        bench.sink.add(value, key, NOON, headers, *P0, 2 * n)
        bench.sink.message_processed(P0, 2 * n)
        bad = Rejected(P0, 2 * n + 1, NOON, key, value, headers, Reason("of several in a message"))
        bench.sink.reject(Refusal(bad, ""), is_deserialized=False)
    value.clear()
    bench.sink.flush()
    [piece] = bench.member.pieces
    kept: list[Any] = [*piece.rows, *piece.rejected]
    assert [(each.value["n"], each.key, each.headers) for each in kept] == [
        (n, {"k": [n]}, [("h", str(n))]) for n in (0, 1, 0, 1)
    ]
    for each in kept:
        n, raw_n = each.value["n"], b"%d" % each.value["n"]
        assert each.value["v"] == {"nested": [[{"n": n}]], "twice": [[n], [n]], "pair": ([n], 0)}
        assert (each.value["raw"], each.value["view"], each.value["seen"]) == (raw_n, raw_n, {"n": n})
        assert (each.value["set"], each.value["lock"]) == ({*range(n + 1)}, lock)


def test_bad_records_of_a_partition_are_kept_where_another_one_is_claimed_meanwhile(bench: Bench) -> None:
    """Some of them are in the lake by then, and their offsets are not committed yet."""
    bench.rows(0)
    bench.sink.flush()
    for offset in (1, 2):
        bench.not_deserialized(offset)
    bench.sink.tick(is_stable=True)
    bench.member.deliver()
    bench.member.starts[P0] = Start(3)
    bench.rows(0, tp=P1)
    for offset in (3, 4):
        bench.not_deserialized(offset)
    bench.sink.flush()
    assert bench.rejected == [1, 2, 3, 4]


# --- portions -------------------------------------------------------------------------------------------------------


def test_a_message_s_rows_are_in_one_portion() -> None:
    bench = Bench(max_buffer_bytes=8 * 2_000)
    for offset in range(20):
        bench.process(offset, {"v": offset}, {"v": offset})
    bench.sink.flush()
    assert len(bench.member.portions) > 2
    for piece in bench.member.pieces:
        values = [row.value["v"] for row in piece.rows]
        assert sorted(values) == sorted([*set(values)] * 2)


def test_headers_count_whichever_messages_have_them(bench: Bench) -> None:
    bench.rows(*range(40))
    before = bench.sink.consumption(1).held_bytes
    bench.process(40, {"v": 40}, headers=[("n", b"v" * 900)])
    assert bench.sink.consumption(1).held_bytes - before > 900


def test_headers_make_a_record_of_an_internal_topic_too_big(bench: Bench) -> None:
    topic = Topic("repartition__sensors", value_deserializer="json", key_deserializer="str")
    bench.current.watch([topic], P0.topic)
    headers = [("n", b"v" * 1_000)]
    topic.row_deserialize(KafkaMessage(b"{}", of_topic=topic.name, raw_headers=headers))  # type: ignore[arg-type]
    with pytest.raises(TooBigError):
        bench.sink.add({}, b"k", NOON, headers, topic.name, 0, 0)


def test_a_full_buffer_waits_until_a_flush_is_due() -> None:
    bench = Bench(max_buffer_bytes=2_000)
    bench.member.flow.on_wait = lambda: None
    bench.member.flow.obstacle = AWAY
    begin = bench.clock.now
    bench.rows(0)
    bench.member.flow.share.hold(2_000)
    bench.rows(1)
    assert bench.clock.now - begin >= 5.0
    due_in = bench.sink.consumption(1).due_in
    assert due_in is not None
    assert due_in <= 0


def test_rows_that_wait_for_a_claim_count_though_those_of_other_partitions_are_delivered(bench: Bench) -> None:
    bench.rows(0)
    bench.sink.flush()
    bench.rows(1)
    bench.rows(0, tp=P1)
    bench.member.held_back = {P1}
    held: list[int] = []

    def look() -> None:
        bench.member.deliver()
        held.append(bench.sink.consumption(1).held_bytes)
        bench.member.admit()

    bench.member.flow.on_wait = look
    bench.sink.flush()
    assert held[0] > 0
    assert bench.sink.consumption(1).held_bytes == 0


def test_partitions_that_are_claimed_again_beside_a_new_one_are_not_said_to_be_read_again(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    def begins_again() -> None:
        for tp in (P0, P1):
            bench.member.starts[tp] = Start(0, "they go through transform() again", replayed_to=0)
            bench.rows(1, tp=tp)
        bench.sink.tick(is_stable=False)  # the statistics come late: the rebalance was before
        bench.sink.flush()

    bench.rows(0)
    bench.sink.flush()
    begins_again()
    assert [record.message for record in caplog.records] == [f"{P1}: they go through transform() again"]
    bench.member.flow.on_wait = bench.member.fence
    bench.rows(2)
    with pytest.raises(SinkBackpressureError):
        bench.sink.flush()
    bench.member.flow.on_wait = bench.member.deliver
    caplog.clear()
    begins_again()
    assert f"{P0}: they go through transform() again" in caplog.text


def test_bad_records_count_also_after_quixstreams_has_gone_back(bench: Bench) -> None:
    """It does not seek them, so they are kept."""
    bench.not_deserialized(0)
    bench.rows(1)
    kept = bench.sink.consumption(1).held_bytes
    bench.member.flow.on_wait = bench.member.fence
    with pytest.raises(SinkBackpressureError):
        bench.sink.flush()
    assert 0 < bench.sink.consumption(1).held_bytes < kept


def test_bad_records_alone_wait_for_room_too() -> None:
    bench = Bench(max_buffer_bytes=2_000)
    bench.member.flow.on_wait = lambda: None
    bench.member.flow.obstacle = AWAY
    bench.rows(0)
    begin = bench.clock.now
    for offset in range(1, 40):
        bench.not_deserialized(offset)
    assert bench.clock.now - begin >= 4.0


def test_a_full_buffer_waits_no_longer_once_the_pipeline_has_failed() -> None:
    bench = Bench(max_buffer_bytes=2_000)
    bench.member.flow.on_wait = lambda: bench.member.flow.fail(FatalError("uploading", "access denied"))
    bench.rows(0)
    bench.member.flow.share.hold(2_000)
    with pytest.raises(FatalError, match="access denied"):
        bench.rows(1)


def test_a_batch_of_the_batch_size_is_written_before_the_first_flush() -> None:
    bench = Bench(batch_size=3)
    bench.rows(0, 1, 2)
    for _ in range(3):
        bench.clock.advance(5.0)
        bench.sink.tick(is_stable=True)
    assert [value for _, value in bench.taken] == [0, 1, 2]
