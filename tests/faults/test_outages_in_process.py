"""Ten minutes without a store, a catalog or a broker, begun at each step: all is waited for and nothing is lost.

Time runs faster here: the minutes are those of the connector's own clocks. Records come faster than a full buffer
takes in, whatever is away.
"""

import logging
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.errors import RetryableError
from app.storage.base import Document, StoredObject
from app.storage.local.store import LocalStore
from app.timings import Timings
from dev.kafka import LocalKafka
from tests.fakes.catalog_server import CatalogServer
from tests.faults.connector_thread import ConnectorThread, Place
from tests.faults.proxy import FaultProxy, Reset, Rule

SPEED = 200
OUTAGE = 600.0  # seconds, by the fast clock
RECORDS = 3_000
SIZE = 2_000  # bytes of a record, so that all of them are six times what the buffer takes
LOAD = {"MAX_BUFFER_MB": "1", "BATCH_SIZE": "100"}
BUFFER = 2**20
LARGEST = 10_000  # what one record may take in the buffer

_begin = time.monotonic()


def fast() -> float:
    return _begin + (time.monotonic() - _begin) * SPEED


@pytest.fixture
def quick(place: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A place where the connectors' time runs faster."""
    _quicken(place, monkeypatch)
    return place


def _quicken(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.timings = Timings(
        clock=fast,
        sleep=lambda seconds: time.sleep(seconds / SPEED),
        gather_seconds=0.0,
        look_seconds=0.25 / SPEED,
        first_retry_seconds=0.5 / SPEED,
        longest_retry_seconds=30.0 / SPEED,
    )
    monkeypatch.setattr("quixstreams.internal_consumer.consumer.monotonic", fast)


class Outage:
    """Begins with a certain request and lasts for ten minutes.

    Args:
        what, where: of the request: its kind, and a part of its key or path.
        number: of the request among those of its kind.
        seconds: how long it lasts.
    """

    def __init__(self, what: str, where: str, number: int = 1, seconds: float = OUTAGE) -> None:
        self._what = what
        self._where = where
        self._left = number
        self._seconds = seconds
        self.ends_at: float | None = None

    def is_met_by(self, what: str, where: str) -> bool:
        if self.ends_at is None and what == self._what and self._where in where:
            self._left -= 1
            if not self._left:
                self.ends_at = fast() + self._seconds
        return self.ends_at is not None and fast() < self.ends_at


class AbsentStore(LocalStore):
    """A folder on a share that is away for a while."""

    def __init__(self, folder: Path, outage: Outage) -> None:
        super().__init__(folder)
        self._outage = outage

    def connect(self, prefix: str) -> None:
        self._ask("connect", prefix)
        super().connect(prefix)

    def upload(self, path: Path, key: str) -> StoredObject:
        self._ask("upload", key)
        return super().upload(path, key)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        self._ask("list", prefix)
        return super().list(prefix)

    def read(self, key: str) -> Document | None:
        self._ask("read", key)
        return super().read(key)

    def write(self, key: str, body: bytes, *, replaces: str | None) -> str:
        self._ask("write", key)
        return super().write(key, body, replaces=replaces)

    def _ask(self, what: str, key: str) -> None:
        if self._outage.is_met_by(what, key):
            raise RetryableError(f"doing {what} of {key}", "no route to host")


class Watch:
    """Looks at the buffer and the scratch folders at each turn of a connector's loop."""

    def __init__(self, connector: ConnectorThread, folder: Path) -> None:
        self.most_bytes = self.most_batches = 0
        self._connector = connector
        self._folder = folder
        connector.in_turn = self._look

    def _look(self) -> None:
        sink = self._connector.sink
        self.most_bytes = max(self.most_bytes, sink._buffer.bytes + self._connector.pipeline.held_bytes)
        self.most_batches = max(self.most_batches, len(list(self._folder.glob("quix-datalake-*/batch-*"))))

    def assert_bounded(self) -> None:
        assert 0 < self.most_bytes <= BUFFER + LARGEST
        assert self.most_batches <= 6, "one at each step and one between two of them"


def _told(caplog: pytest.LogCaptureFixture, pattern: str) -> list[re.Match[str]]:
    """What the connector has said of that kind, in all lines of it."""
    messages = (record.getMessage() for record in caplog.records if record.name.startswith("app."))
    return [match for message in messages if (match := re.search(pattern, message))]


def _assert_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """Two tries of one step may meet the outage at different requests, and each is told of once."""
    records = [record for record in caplog.records if record.name.startswith("app.")]
    complaints = [record.getMessage() for record in records if record.levelno >= logging.WARNING]
    assert len(complaints) == len(set(complaints)) <= 2
    assert "Trying again until it works" in complaints[-1]
    [again] = _told(caplog, r"it works again after (\d+) s")
    assert int(again[1]) >= OUTAGE - 60  # the pause between two tries is half a minute


STORE_STEPS = {
    "reading a journal to claim it": ("read", "_journal/group"),
    "beginning a journal": ("write", "_journal/group"),
    "writing the schema": ("write", "schema.json"),
    "claiming a partition": ("write", "_journal/group", 2),
    "announcing a batch": ("write", "_journal/group", 3),
    "announcing a later batch": ("write", "_journal/group", 6),
    "the first upload": ("upload", ".parquet"),
    "a later upload": ("upload", ".parquet", 4),
    "looking at the journal after an upload": ("read", "_journal/group", 2),
    "noting that a batch is done": ("write", "_journal/group", 4),
}


@pytest.mark.parametrize("step", STORE_STEPS.values(), ids=STORE_STEPS.keys())
def test_the_store_goes_away(quick: Place, caplog: pytest.LogCaptureFixture, step: tuple[Any, ...]) -> None:
    outage = Outage(*step)
    quick.produce(RECORDS, size=SIZE)
    connector = quick.connector(LOAD, store=AbsentStore(quick.store_folder, outage))
    watch = Watch(connector, quick.folder)

    quick.wait_until_committed(RECORDS, by=connector)
    connector.stop()

    assert outage.ends_at is not None
    quick.assert_whole()
    watch.assert_bounded()
    _assert_told_once(caplog)


CATALOG_STEPS = {
    "looking for the table": ("GET", "/tables/", 2),
    "creating the table": ("PUT", "/tables/"),
    "naming the source": ("POST", "/sources"),
    "registering the first files": ("POST", "/add-files"),
    "registering later files": ("POST", "/add-files", 3),
}


@pytest.mark.parametrize("step", CATALOG_STEPS.values(), ids=CATALOG_STEPS.keys())
def test_the_catalog_goes_away(quick: Place, caplog: pytest.LogCaptureFixture, step: tuple[Any, ...]) -> None:
    outage = Outage(*step)
    quick.produce(RECORDS, size=SIZE)
    with CatalogServer() as catalog, FaultProxy(catalog.url) as proxy:
        proxy.add(Rule(lambda request: outage.is_met_by(request.method, request.path), Reset()))
        connector = quick.connector(LOAD, CATALOG_URL=proxy.url, CATALOG_AUTH_TOKEN=catalog.token)
        watch = Watch(connector, quick.folder)
        quick.wait_until_committed(RECORDS, by=connector)
        connector.stop()

        registered = sorted(file["file_path"] for file in catalog.files("readings"))
        assert registered == [f"file://{path}" for path in quick.files()]
    assert outage.ends_at is not None
    quick.assert_whole()
    watch.assert_bounded()
    _assert_told_once(caplog)


@pytest.mark.parametrize("place", [2], indirect=True)
def test_a_member_comes_and_one_goes_while_the_store_is_away(quick: Place) -> None:
    outage = Outage("upload", ".parquet", 3, seconds=float("inf"))
    quick.produce(RECORDS, size=SIZE)
    first = quick.connector(LOAD, store=AbsentStore(quick.store_folder, outage))
    watch = Watch(first, quick.folder)
    first.wait_until(lambda: first.is_paused, "back-pressure")

    of_second = Outage("read", "_journal/group", seconds=float("inf"))
    second = quick.connector(LOAD, store=AbsentStore(quick.store_folder, of_second))
    first.wait_until(lambda: len(first.assignments.tps) == 1, "the rebalance")
    second.wait_until(lambda: second.application and second.assignments.tps, "the rebalance")
    assert isinstance(second.end(), RetryableError | None)
    first.wait_until(lambda: first.waiting == {0, 1}, "the second rebalance")
    assert first.partitions == set(), "nothing can be claimed"
    outage.ends_at = fast()

    quick.wait_until_committed(RECORDS // 2, RECORDS // 2, by=first)
    first.stop()
    quick.assert_whole()
    watch.assert_bounded()


def test_a_start_waits_for_the_store_for_a_minute(quick: Place, caplog: pytest.LogCaptureFixture) -> None:
    quick.produce(100)
    ended = quick.connector(LOAD, store=AbsentStore(quick.store_folder, Outage("connect", ""))).wait()
    assert isinstance(ended, RetryableError)
    assert len(_told(caplog, "doing connect .*Trying again$")) == 1
    assert len(_told(caplog, "still waiting after .* doing connect")) > 1

    connector = quick.connector(LOAD, store=AbsentStore(quick.store_folder, Outage("connect", "", seconds=40.0)))
    quick.wait_until_committed(100, by=connector)
    connector.stop()
    quick.assert_whole()


class StoppingStore(LocalStore):
    """A folder; the first request of a kind lets something happen before it is carried out."""

    def __init__(self, folder: Path, what: str, happens: Callable[[], None]) -> None:
        super().__init__(folder)
        self._what = what
        self._happens = happens

    def upload(self, path: Path, key: str) -> StoredObject:
        self._meet("upload")
        return super().upload(path, key)

    def read(self, key: str) -> Document | None:
        if "_journal/group" in key:
            self._meet("claim")
        return super().read(key)

    def _meet(self, what: str) -> None:
        if what == self._what:
            self._what = ""
            self._happens()


@pytest.fixture(scope="module")
def mortal_kafka() -> Iterator[LocalKafka]:
    """A broker of our own, to be stopped."""
    with LocalKafka(heap="256m") as own:
        yield own


@pytest.mark.parametrize("step", ["claim", "upload"])
def test_the_broker_goes_away(
    mortal_kafka: LocalKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    with Place(mortal_kafka, tmp_path, monkeypatch) as place:
        _quicken(place, monkeypatch)
        place.timings = replace(place.timings, kafka_answer_seconds=1.0)
        place.produce(RECORDS, size=SIZE)
        store = StoppingStore(place.store_folder, step, mortal_kafka.stop)
        connector = place.connector(LOAD, store=store)
        watch = Watch(connector, place.folder)
        connector.wait_until(lambda: store._what == "", f"the {step}")

        time.sleep(OUTAGE / SPEED)
        assert not connector.has_ended
        mortal_kafka.start()
        place.produce(100, size=SIZE)

        place.wait_until_committed(RECORDS + 100, by=connector)
        connector.stop()
        place.assert_whole()
        watch.assert_bounded()
