"""The callbacks of the stock application, and the errors that it ends with."""

import json
import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from confluent_kafka import KafkaError, KafkaException
from quixstreams.checkpointing.exceptions import CheckpointConsumerCommitError, InvalidStoredOffset
from quixstreams.exceptions import PartitionAssignmentError
from quixstreams.kafka.exceptions import KafkaConsumerException, KafkaProducerDeliveryError
from quixstreams.models import MessageContext, Row
from quixstreams.models.serializers.exceptions import SerializationError

from app.bad_records.refusals import Refusal, TooBigError
from app.consumer.errors import translated
from app.consumer.framework.application import Callbacks, run
from app.consumer.framework.current import CurrentMessage
from app.errors import ConnectorError, FatalError, RetryableError
from tests.fakes.kafka_message import KafkaMessage

LOGGER = logging.getLogger(__name__)
NOON = 1_705_320_000_000
FAILED_REBALANCE = PartitionAssignmentError("Error during partition assignment")
FAILED_REBALANCE.__cause__ = KafkaException(KafkaError(KafkaError._TIMED_OUT))


class Sink:
    def __init__(self) -> None:
        self.refused: list[tuple[Refusal, bool]] = []
        self.ticks: list[bool] = []
        self.thread = SimpleNamespace(is_polling=True)

    def reject(self, refusal: Refusal, *, is_deserialized: bool) -> None:
        self.refused.append((refusal, is_deserialized))

    def tick(self, *, is_stable: bool) -> None:
        self.ticks.append(is_stable)


class Bench:
    def __init__(self) -> None:
        self.current = CurrentMessage(100)
        self.callbacks = Callbacks(self.current)
        self.sink = Sink()
        sink: Any = self.sink
        self.callbacks.sink = sink
        self.arguments = self.callbacks.arguments({"client.id": "lake"})

    def count(self, rebalances: int, state: str = "UP") -> None:
        group = {"rebalance_cnt": rebalances, "assignment_size": 2}
        statistics = {"brokers": {"a:1": {"state": state}}, "cgrp": group}
        self.arguments["consumer_extra_config"]["stats_cb"](json.dumps(statistics))


@pytest.fixture
def bench() -> Bench:
    return Bench()


def row(value: Any, offset: int = 7) -> Row:
    return Row(value, "k", NOON, MessageContext("sensors", 0, offset, 10), [])


def test_a_message_that_does_not_deserialize_is_rejected_as_it_came(bench: Bench) -> None:
    message = KafkaMessage(b"{", b"k", 7)
    assert bench.arguments["on_consumer_error"](ValueError("no JSON"), message, LOGGER)
    ((refusal, is_deserialized),) = bench.sink.refused
    assert (refusal.rejected.offset, refusal.rejected.value, is_deserialized) == (7, b"{", False)


def test_a_record_at_which_transform_fails_is_rejected_with_its_message(bench: Bench) -> None:
    bench.current.begin(KafkaMessage(b'{"v": 1.0}', b"k", 7))
    assert bench.arguments["on_processing_error"](ValueError("no"), row({"v": 1.0}), LOGGER)
    ((refusal, is_deserialized),) = bench.sink.refused
    assert (refusal.rejected.key, refusal.rejected.value, is_deserialized) == (b"k", b'{"v": 1.0}', True)
    assert "ValueError" in refusal.rejected.reason


def test_a_message_is_not_taken_for_another_one(bench: Bench) -> None:
    message = KafkaMessage(None, None, 8)
    bench.current.begin(message)
    assert bench.current.of("sensors", 0, 8) is message
    assert bench.current.of("sensors", 0, 7) is None
    assert bench.current.of("sensors", 1, 8) is None
    assert bench.current.of("others", 0, 8) is None
    holding_several = CurrentMessage(100, holds_several=True)
    holding_several.begin(message)
    assert holding_several.of("sensors", 0, 8) is None


@pytest.mark.parametrize(
    ("key", "value", "headers"),
    [(b"k", b'"%s"' % (b"x" * 99), []), (b"k" * 90, b'"123456789"', []), (b"k", b"1", [("name", b"x" * 99)])],
)
def test_a_message_that_is_too_big_is_refused_before_it_is_parsed(
    bench: Bench, key: bytes, value: bytes, headers: Any
) -> None:
    with pytest.raises(TooBigError):
        bench.current.begin(KafkaMessage(value, key, raw_headers=headers))


@pytest.mark.parametrize(
    "error", [RetryableError("writing", "no"), KafkaProducerDeliveryError(KafkaError(KafkaError._MSG_TIMED_OUT))]
)
def test_an_error_of_something_else_is_no_bad_record(bench: Bench, error: Exception) -> None:
    assert not bench.arguments["on_processing_error"](error, row({}), LOGGER)
    assert bench.sink.refused == []


@pytest.mark.parametrize(
    ("error", "kind", "told"),
    [
        (KafkaConsumerException(KafkaError(KafkaError._BAD_COMPRESSION)), FatalError, "decompress"),
        # As the client replaces the error of a rebalance.
        (SystemError("poll returned NULL without setting an exception"), RetryableError, "rebalancing"),
    ],
)
def test_an_error_that_ends_the_process(bench: Bench, error: Exception, kind: type[Exception], told: str) -> None:
    with pytest.raises(kind, match=told):
        bench.arguments["on_consumer_error"](error, None, LOGGER)


def test_a_refused_producer_ends_the_process_and_a_record_that_cannot_be_sent_does_not(bench: Bench) -> None:
    told = bench.arguments["on_producer_error"]
    with pytest.raises(FatalError, match="Write"):
        told(KafkaException(KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED)), None, LOGGER)
    assert not told(SerializationError("no JSON"), None, LOGGER), "it is the record's, and raised for it"


@pytest.mark.parametrize(
    ("error", "goes_on"),
    [
        (KafkaConsumerException(KafkaError(KafkaError._TRANSPORT)), True),
        (CheckpointConsumerCommitError(KafkaError(KafkaError._TRANSPORT)), False),
        (RetryableError("ticking", "no"), False),
    ],
)
def test_only_a_passing_error_of_the_client_is_passed_over(bench: Bench, error: Exception, goes_on: bool) -> None:
    assert bench.arguments["on_consumer_error"](error, None, LOGGER) is goes_on


def test_statistics_are_ticks_and_tell_of_rebalances_and_brokers(bench: Bench) -> None:
    bench.count(0)
    bench.count(1)
    bench.count(1, "DOWN")
    assert bench.sink.ticks == [True, False, True]
    assert not bench.callbacks.is_kafka_there
    bench.arguments["consumer_extra_config"]["stats_cb"]('{"brokers": {}}')  # of a consumer outside of the group
    assert len(bench.sink.ticks) == 3


def test_statistics_of_a_consumer_that_transform_polls_are_no_tick(bench: Bench) -> None:
    bench.sink.thread.is_polling = False
    bench.count(7, "DOWN")
    assert bench.sink.ticks == []
    assert bench.callbacks.is_kafka_there


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (RetryableError("writing", "no"), RetryableError, 75),
        (CheckpointConsumerCommitError(KafkaError(KafkaError.ILLEGAL_GENERATION)), RetryableError, 75),
        (CheckpointConsumerCommitError(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED)), FatalError, 1),
        (KafkaException(KafkaError(KafkaError._TRANSPORT)), RetryableError, 75),
        (InvalidStoredOffset("5 <= 7"), RetryableError, 75),
        (KafkaProducerDeliveryError(KafkaError(KafkaError._MSG_TIMED_OUT)), RetryableError, 75),
        (KafkaConsumerException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)), FatalError, 1),
        (ValueError("of a sink"), FatalError, 1),
        (SerializationError("no JSON"), FatalError, 1),
        (FAILED_REBALANCE, RetryableError, 75),
    ],
)
def test_an_error_ends_the_process_with_its_exit_code(error: Exception, kind: type, code: int) -> None:
    found = translated(error)
    assert isinstance(found, kind)
    assert found.exit_code == code


def test_sys_exit_in_transform_ends_the_process_with_a_message() -> None:
    application = Mock(**{"run.side_effect": SystemExit(3)})
    with pytest.raises(ConnectorError, match=r"sys.exit\(3\)"):
        run(application)


def test_an_error_of_the_closing_client_does_not_hide_the_one_that_ended_the_process() -> None:
    denied = FatalError("uploading to the lake", "access denied")

    @contextmanager
    def client() -> Iterator[None]:
        try:
            yield
        finally:
            _fail_rebalance("assign", KafkaException(KafkaError(KafkaError._DESTROY)))

    def running() -> None:
        with ExitStack() as ends:
            ends.enter_context(client())
            _fail_rebalance("revoke", denied)

    with pytest.raises(FatalError) as raised:
        run(Mock(**{"run.side_effect": running}))

    assert raised.value is denied


def _fail_rebalance(callback: str, error: Exception) -> None:
    """As quixstreams does where its callback raises this."""
    try:
        raise error  # noqa: TRY301 - its context is what counts
    except Exception as cause:
        raise PartitionAssignmentError(callback) from cause
