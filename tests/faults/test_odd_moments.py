"""Rebalances, freezes and stops in odd moments, on a real broker: nothing is lost or doubled."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from app.errors import FatalError, RetryableError
from tests.fakes.moody_store import MoodyStore
from tests.faults.connector_thread import ConnectorThread, Place

AWAY = RetryableError("uploading to the lake", "no route to host")
DENIED = FatalError("uploading to the lake", "access denied")
each_lane = pytest.mark.usefixtures("each_lane")
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


@each_lane
@two_partitions
def test_a_rebalance_during_back_pressure_leaves_no_partition_paused(place: Place, store: MoodyStore) -> None:
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


@two_partitions
@pytest.mark.parametrize("learns_by", ["lost", pytest.param("given away", marks=pytest.mark.night)])
def test_rows_of_a_partition_that_another_member_has_by_now_are_forgotten(place: Place, learns_by: str) -> None:
    soon = {"session.timeout.ms": 6_000, "max.poll.interval.ms": 6_000} if learns_by == "given away" else {}
    first = place.connector(LAZY, kafka=soon)
    place.produce(100)
    _has_read(first, 100)

    with _frozen(first):
        if learns_by == "lost":  # else it is the other member's coming that ends its membership
            place.expel(first)
        second = place.connector()
        place.wait_until_committed(50, 50, by=second)
    first.wait_until(lambda: len(first.partitions) == 1, "its return to the group")
    place.produce(100)
    _has_read(first, 50)

    first.stop()
    place.wait_until_committed(100, 100, by=second)
    second.stop()
    place.assert_whole()


@each_lane
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


@each_lane
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
