"""What quixstreams and its Kafka client do in odd moments, on a real broker: it loses, doubles and stops nothing."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from app.errors import ConnectorError, FatalError, RetryableError
from app.retry import Stopped
from dev.kafka import LocalKafka
from tests.fakes.moody_store import MoodyStore
from tests.faults.conftest import same
from tests.faults.connector_thread import CONSUMER, ConnectorThread, Place

AWAY = RetryableError("uploading to the lake", "no route to host")
DENIED = FatalError("uploading to the lake", "access denied")
two_partitions = pytest.mark.parametrize("place", [2], indirect=True)
# Whatever is read waits for the stop, or for what the test does.
LAZY = {"BATCH_SIZE": "1000000", "COMMIT_INTERVAL": "3600"}


@pytest.fixture
def store(place: Place) -> MoodyStore:
    return MoodyStore(place.store_folder)


def _has_read(connector: ConnectorThread, rows: int) -> None:
    connector.wait_until(lambda: connector.waiting_rows == rows, f"{rows} rows that wait")


@contextmanager
def _frozen(connector: ConnectorThread) -> Iterator[None]:
    """Keep the consumer's loop from turning, so that the group goes on without this member."""
    thaw = threading.Event()
    connector.in_turn = thaw.wait
    try:
        yield
    finally:
        connector.in_turn = lambda: None
        thaw.set()


@two_partitions
def test_a_flush_that_a_revocation_left_behind_seals_nothing_of_the_next_life(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = place.connector(LAZY, transform=same)
    place.produce(100)
    _has_read(first, 100)
    flush, late, outcome = first.sink.flush, threading.Event(), list[ConnectorError]()

    def flush_late() -> None:
        if threading.current_thread().name != CONSUMER:
            late.wait()
        try:
            flush()
        except ConnectorError as error:
            outcome.append(error)
            raise

    monkeypatch.setattr(first.sink, "flush", flush_late)
    second = place.connector()
    second.wait_until_consuming()
    first.wait_until(lambda: len(first.partitions) == 1, "the rebalance")
    _has_read(first, 50)

    late.set()
    first.wait_until(lambda: outcome, "the end of the flush")
    assert first.waiting_rows == 50
    assert first.writer.batches == 0

    first.stop()
    place.wait_until_committed(50, 50, by=second)
    second.stop()
    place.assert_whole()


def test_rows_of_one_record_are_in_one_batch(place: Place, store: MoodyStore) -> None:
    def in_three(value: dict[str, int]) -> list[dict[str, int]]:
        return [{**value, "piece": piece} for piece in range(3)]

    reached, held = threading.Event(), threading.Event()

    def hold_the_second(number: int) -> None:
        if number == 1:
            reached.set()
            held.wait()
            raise Stopped

    first = place.connector(
        BATCH_SIZE="2", before_write=hold_the_second, transform=lambda sdf: sdf.apply(in_three, expand=True)
    )
    place.produce(1)  # alone, for what comes together is one batch
    first.wait_until(lambda: [j for j in place.journals().values() if (j["state"], j["end"]) == ("done", 0)])
    place.produce(9)
    first.wait_until(reached.is_set, "the second batch")
    first.crash()
    held.set()
    assert place.numbers() == [0, 0, 0]

    second = place.connector(BATCH_SIZE="2", store=store, transform=lambda sdf: sdf.apply(in_three, expand=True))
    place.wait_until_committed(10, by=second)
    store.refuse = lambda _: AWAY
    place.produce(10)
    second.wait_until(lambda: second.is_paused, "back-pressure")
    store.refuse = lambda _: None
    place.wait_until_committed(20, by=second)
    second.stop()
    place.assert_whole([n for n in range(20) for _ in range(3)])


def test_a_client_that_goes_back_by_itself_is_sent_on_again(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    """As librdkafka does half a second after a seek that overtook its own search for the topic's beginning."""
    caplog.set_level(logging.INFO)
    connector = place.connector(transform=same)
    place.produce(100)
    place.wait_until_committed(100, by=connector)
    application = connector.application
    slips = iter([TopicPartition(place.topic, 0, 0)])
    connector.in_turn = lambda: [application.consumer.seek(slip) for slip in slips]

    connector.wait_until(lambda: "went back to offset 0" in caplog.text, "the slip")
    place.produce(50)

    place.wait_until_committed(150, by=connector)
    connector.stop()
    place.assert_whole()


@pytest.mark.parametrize("written", [True, False])
def test_offsets_are_committed_once_their_coordinator_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, *, written: bool
) -> None:
    """Rows that are not in the lake yet wait: Kafka has to say that they still are of the same topic."""
    caplog.set_level(logging.INFO)
    with LocalKafka(heap="256m") as kafka, Place(kafka, tmp_path, monkeypatch) as place:
        patient = {"max.poll.interval.ms": 300_000}  # of the loop, which a commit holds up
        settings = LAZY | {"BATCH_SIZE": "100"} if written else LAZY
        connector = place.connector(settings, kafka=patient, transform=same)
        place.produce(100)
        if written:
            connector.wait_until(lambda: place.numbers() == list(range(100)), "the rows in the lake")
        else:
            _has_read(connector, 100)
        application = connector.application
        kafka.stop()
        connector.in_turn = lambda: application.checkpoints.commit_checkpoint(force=True)
        told = "offsets not committed yet" if written else "asking Kafka for the id of topic"
        connector.wait_until(lambda: told in caplog.text, "no answer")
        assert place.numbers() == (list(range(100)) if written else [])

        kafka.start()
        place.produce(50)
        place.wait_until_committed(150, by=connector)
        connector.stop()
        place.assert_whole()
