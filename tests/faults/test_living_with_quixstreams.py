"""What quixstreams and its Kafka client do in odd moments, on a real broker: it loses, doubles and stops nothing."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from app.errors import ConnectorError, FatalError, RetryableError
from app.retry import Stopped
from dev.kafka import LocalKafka
from tests.fakes.moody_store import MoodyStore
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
def test_a_rebalance_during_back_pressure_leaves_no_partition_paused(place: Place, store: MoodyStore) -> None:
    place.timings = replace(place.timings, pause_seconds=3600.0)  # nothing but the rebalance ends it
    store.refuse = lambda _: AWAY
    first = place.connector(store=store)
    place.produce(100)
    first.wait_until(lambda: first.is_paused, "back-pressure")
    store.refuse = lambda _: None

    second = place.connector()
    second.wait_until_consuming()
    first.wait_until(lambda: len(first.partitions) == 1, "the rebalance")
    place.produce(100)
    place.wait_until_committed(100, 100, by=first)

    first.stop()
    second.stop()
    place.assert_whole()


def test_a_partition_lost_and_given_back_is_read_anew(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    connector = place.connector(LAZY)
    place.produce(100)
    _has_read(connector, 100)

    with _frozen(connector):
        connector.wait_until(lambda: place.members() == 0, "the end of its membership")
    connector.wait_until(lambda: "lost: " in caplog.text and connector.partitions, "its return to the group")
    _has_read(connector, 100)
    place.produce(50)
    _has_read(connector, 150)

    connector.stop()
    assert place.committed() == [150]
    place.assert_whole()


@two_partitions
@pytest.mark.parametrize("learns_by", ["lost: ", "given away: "])
def test_rows_of_a_partition_that_another_member_has_by_now_are_forgotten(
    place: Place, caplog: pytest.LogCaptureFixture, learns_by: str
) -> None:
    first = place.connector(LAZY)
    place.produce(100)
    _has_read(first, 100)

    with _frozen(first):
        if learns_by == "lost: ":  # else it is the other member's coming that ends its membership
            first.wait_until(lambda: place.members() == 0, "the end of its membership")
        second = place.connector()
        place.wait_until_committed(50, 50, by=second)
    first.wait_until(lambda: len(first.partitions) == 1, "its return to the group")
    assert learns_by in caplog.text
    place.produce(100)
    _has_read(first, 50)

    first.stop()
    place.wait_until_committed(100, 100, by=second)
    second.stop()
    place.assert_whole()


@two_partitions
def test_a_flush_that_a_revocation_left_behind_seals_nothing_of_the_next_life(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = place.connector(LAZY)
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


@two_partitions
def test_a_failure_that_only_a_revocation_meets_ends_the_connector(place: Place, store: MoodyStore) -> None:
    first = place.connector(LAZY, store=store)
    place.produce(100)
    _has_read(first, 100)
    store.refuse = lambda _: DENIED

    second = place.connector()

    assert first.wait() is DENIED
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


@two_partitions
def test_a_partition_stays_paused_until_it_is_claimed_and_others_go_on(place: Place, store: MoodyStore) -> None:
    store.refuse_small = lambda key: AWAY if key.endswith("/1.json") else None
    place.produce(100)
    connector = place.connector(store=store)
    place.wait_until_committed(50, -1, by=connector)
    assert connector.partitions == {0}

    store.refuse = lambda _: AWAY
    place.produce(100)
    connector.wait_until(lambda: connector.is_paused, "back-pressure")
    store.refuse = lambda _: None
    place.wait_until_committed(100, -1, by=connector)  # back-pressure is over
    place.produce(100)
    place.wait_until_committed(150, -1, by=connector)
    assert connector.partitions == {0}

    store.refuse_small = lambda _: None
    place.wait_until_committed(150, 150, by=connector)
    connector.stop()
    place.assert_whole()


def test_a_stop_during_an_outage_ends_in_time_and_says_what_is_left(place: Place, store: MoodyStore) -> None:
    place.timings = replace(place.timings, stop_seconds=0.5)
    connector = place.connector(LAZY, store=store)
    place.produce(100)
    _has_read(connector, 100)
    store.refuse = lambda _: AWAY

    error = connector.end()

    assert isinstance(error, RetryableError)
    assert place.numbers() == []
    again = place.connector()
    place.wait_until_committed(100, by=again)
    again.stop()
    place.assert_whole()


def test_a_client_that_goes_back_by_itself_is_sent_on_again(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    """As librdkafka does half a second after a seek that overtook its own search for the topic's beginning."""
    caplog.set_level(logging.INFO)
    connector = place.connector()
    place.produce(100)
    place.wait_until_committed(100, by=connector)
    application = connector.application
    assert application is not None
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
        connector = place.connector(settings, kafka=patient, transform=lambda sdf: sdf.update(lambda _: None))
        place.produce(100)
        if written:
            connector.wait_until(lambda: place.numbers() == list(range(100)), "the rows in the lake")
        else:
            _has_read(connector, 100)
        application = connector.application
        assert application is not None
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
