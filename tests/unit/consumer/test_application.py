"""What ends the application's loop and what does not: errors of the broker and of our own, a stop."""

import logging
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError
from quixstreams.kafka.exceptions import KafkaConsumerException, KafkaProducerDeliveryError
from quixstreams.state.exceptions import StateTransactionError

from app.consumer.errors import consuming_failed
from app.errors import ConnectorError, FatalError, RetryableError
from app.journal.start_offset import Start
from tests.fakes.clock import Clock
from tests.unit.consumer.application_bench import TP, Bench, record


def consumer_error(code: int, *, fatal: bool = False) -> bool:
    return consuming_failed(KafkaConsumerException(KafkaError(code, "in the broker's words", fatal)))


def test_retriable_errors_of_the_consumer_are_logged_and_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    assert consumer_error(KafkaError._TRANSPORT)
    assert "Kafka: in the broker's words; going on" in caplog.text


@pytest.mark.parametrize(
    ("code", "fatal"),
    [
        (KafkaError.UNKNOWN_TOPIC_OR_PART, False),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, False),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, False),
        (KafkaError._FATAL, True),
    ],
)
def test_lasting_errors_of_the_consumer_end_the_process(code: int, fatal: bool) -> None:
    with pytest.raises(FatalError, match=r"consuming from Kafka: .*Check that the topic still exists"):
        consumer_error(code, fatal=fatal)


def test_errors_of_our_own_are_never_passed_over(lenient: Bench) -> None:
    assert not consuming_failed(RuntimeError("a bug"))
    own: ConnectorError = RetryableError("uploading", "503")
    of_state = StateTransactionError("the transaction is closed")
    of_another = KafkaProducerDeliveryError(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
    for error in (own, of_state, of_another):
        assert not lenient.application._processing_failed(error, record(0), logging.getLogger())


def test_records_that_come_again_by_a_slip_of_the_client_become_no_rows(lenient: Bench) -> None:
    lenient.turn(record(0), record(1), record(0), record(1), record(2))
    lenient.checkpoint()
    assert lenient.written == [0, 1, 2]
    assert lenient.commits == [{TP: 3}]
    assert lenient.calls.count("seek 0 to 2") == 2


def test_records_before_the_claim_become_no_rows(lenient: Bench) -> None:
    lenient.claims.starts = {TP: Start(5)}
    lenient.turn(record(0), record(5))
    assert lenient.calls.count("seek 0 to 5") == 3
    lenient.checkpoint()
    assert (lenient.written, lenient.commits) == ([5], [{TP: 6}])


def test_records_of_a_recreated_topic_end_the_process(lenient: Bench) -> None:
    lenient.turn(record(0), record(1))
    lenient.claims.made_anew = {TP.topic}
    with pytest.raises(RetryableError, match="recreated"):
        lenient.turn(record(0))


def test_a_topic_recreated_during_a_pause_ends_the_process(lenient: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    lenient.turn(record(0))
    paused = {TP}
    monkeypatch.setattr(type(lenient.application._consumer), "backpressured_tps", property(lambda _: paused))
    lenient.turn()
    lenient.claims.made_anew = {TP.topic}
    lenient.turn()
    paused.clear()
    with pytest.raises(RetryableError, match="recreated"):
        lenient.turn()


def test_messages_that_come_without_a_pause_share_a_turn(lenient: Bench) -> None:
    lenient.records += [record(offset) for offset in range(200)]
    lenient.turns = 0
    lenient.turn(*[None] * 5)
    lenient.checkpoint()
    assert (lenient.written, lenient.turns) == (list(range(200)), 5)


def test_a_full_buffer_ends_the_turn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bench = Bench(monkeypatch, tmp_path, max_buffer_bytes=1_000)
    bench.assign()
    bench.records += [record(offset) for offset in range(20)]
    bench.turn()
    assert 0 < len(bench.written) < 10


def test_records_that_take_long_do_not_share_a_turn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clock = Clock()
    bench = Bench(monkeypatch, tmp_path, clock=clock)
    bench.assign()

    def take_20_ms(value: dict[str, Any]) -> list[Any]:
        clock.advance(0.02)
        return [value]

    bench.transform = take_20_ms
    bench.records += [record(offset) for offset in range(20)]
    bench.turn()
    assert bench.sink._buffer.rows == 3, "a turn lasts 50 ms, and a record is not interrupted"


def test_a_stop_ends_the_turn(lenient: Bench) -> None:
    lenient.records += [record(offset) for offset in range(20)]
    lenient.turn()
    assert lenient.sink._buffer.rows == 20

    def stop(value: dict[str, Any]) -> list[Any]:
        lenient.application.request_stop()
        return [value]

    lenient.transform = stop
    lenient.records += [record(offset) for offset in range(20, 40)]
    lenient.turn()
    assert lenient.sink._buffer.rows == 21


def test_a_failed_pipeline_ends_the_loop_at_the_next_turn(bench: Bench) -> None:
    bench.pipeline.failure = FatalError("uploading s3://lake/x", "403", "Check the rights")
    with pytest.raises(FatalError, match="uploading s3://lake/x"):
        bench.turn()
    assert bench.turns == 0


def test_a_stop_before_the_loop_consumes_nothing(bench: Bench) -> None:
    bench.application.request_stop()
    bench.application._run_tracker.set_as_running()  # type: ignore[no-untyped-call] # the framework does so when its loop begins
    bench.turn(record(0))
    assert len(bench.records) == 1
    assert not bench.application._run_tracker.running


def test_signals_stay_with_the_service(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    installed: list[object] = []
    monkeypatch.setattr("signal.signal", lambda *arguments: installed.append(arguments))
    bench.application._setup_signal_handlers()
    assert installed == []


def test_a_record_is_not_to_blame_where_kafka_takes_no_more_of_what_it_sends(lenient: Bench) -> None:
    """It would go to the dead letter, and with it all records of an outage."""

    def full(_: object) -> list[object]:
        raise BufferError("Local: Queue full")

    lenient.turn(record(0))
    lenient.transform = full
    with pytest.raises(BufferError):
        lenient.turn(record(1))
    lenient.checkpoint()
    assert lenient.written == [0]
    assert not lenient.reported
