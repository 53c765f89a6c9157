"""Rebalances, freezes and stops in odd moments, on a real broker: nothing is lost or doubled."""

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


@each_lane
@two_partitions
def test_a_failure_that_only_a_revocation_meets_ends_the_connector(place: Place, store: MoodyStore) -> None:
    first = place.connector(LAZY, store=store)
    place.produce(100)
    _has_read(first, 100)
    store.refuse = lambda _: DENIED

    second = place.connector()

    assert first.wait() is DENIED
    place.finish(second, 50, 50)
    place.assert_whole()
