"""Uploading and registering the files of one batch, over a real folder."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from app.errors import ConnectorError, FatalError, RetryableError
from app.model import OutputFile, StoredFile, WrittenFile
from app.pipeline.upload import Destination, Upload
from app.retry import Stopped
from tests.fakes.moody_store import MoodyStore
from tests.support.batches import part

ROOT = "data/t"
WAIT = 10.0


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(max_workers=3) as threads:
        yield threads


@pytest.fixture
def store(tmp_path: Path) -> MoodyStore:
    folder = tmp_path / "lake"
    folder.mkdir()
    return MoodyStore(folder)


def written(tmp_path: Path, *places: str, owner: str = "0a1b2c3d") -> list[WrittenFile]:
    """One file for each of these values of the column ``place``, its content the value."""
    files = []
    for place in places:
        path = tmp_path / f"part-{owner}-{place}.parquet"
        path.write_text(place)
        files.append(WrittenFile(path, path.stat().st_size, OutputFile(part(owner=owner), {"place": place}, 7)))
    return files


class Shipment:
    """The upload of data files, and what the catalog would hear of them."""

    def __init__(
        self,
        files: Sequence[WrittenFile],
        store: MoodyStore,
        pool: ThreadPoolExecutor,
        is_owner: Callable[[str], bool] = lambda _: True,
    ) -> None:
        self._files, self._is_owner = files, is_owner
        self._destination = Destination(store, ROOT)
        self._upload = Upload([self._destination.data_file(file) for file in files], (), store, pool, is_owner)
        self.run = self._upload.run

    def stored(self) -> list[StoredFile]:
        owners = {file.group.part.owner for file in self._files if self._is_owner(file.group.part.owner)}
        return self._destination.stored_files(self._files, self._upload.stored(owners), {})


def places(files: Sequence[StoredFile]) -> list[str]:
    return [file.partition_values["place"] for file in files]


def tried(store: MoodyStore) -> list[str]:
    """The places whose upload was tried, in order of their names."""
    return sorted(key.split("place=")[1].split("/")[0] for key in store.tried)


def away(key: str) -> RetryableError:
    return RetryableError(f"uploading {key}", "the store is away")


def forbidden(key: str) -> FatalError:
    return FatalError(f"uploading {key}", "access denied")


# --- upload ---------------------------------------------------------------------------------------------------------


def test_all_files_are_stored_under_their_keys(tmp_path: Path, store: MoodyStore, pool: ThreadPoolExecutor) -> None:
    upload = Shipment(written(tmp_path, "NYC", "a%2Fb"), store, pool)
    upload.run()
    name = "data_sensors-0_0000000000000000000-9_0a1b2c3d-0.parquet"
    stored = upload.stored()
    assert [file.key for file in stored] == [f"{ROOT}/place=NYC/{name}", f"{ROOT}/place=a%252Fb/{name}"]
    assert [file.uri for file in stored] == [f"{store.uri}/{file.key}" for file in stored]
    assert [(file.size, file.rows, dict(file.partition_values)) for file in stored] == [
        (3, 7, {"place": "NYC"}),
        (5, 7, {"place": "a%2Fb"}),
    ]
    assert (tmp_path / "lake" / stored[0].key).read_text() == "NYC"


def test_a_repetition_uploads_only_what_is_missing(tmp_path: Path, store: MoodyStore, pool: ThreadPoolExecutor) -> None:
    store.refuse = lambda key: away(key) if "place=b" in key else None
    upload = Shipment(written(tmp_path, "a", "b", "c"), store, pool)
    with pytest.raises(RetryableError, match="the store is away"):
        upload.run()
    assert places(upload.stored()) == ["a", "c"]
    store.refuse = lambda _: None
    store.tried.clear()
    upload.run()
    assert tried(store) == ["b"]
    assert sorted(places(upload.stored())) == ["a", "b", "c"]


def test_when_all_is_stored_a_repetition_does_nothing(
    tmp_path: Path, store: MoodyStore, pool: ThreadPoolExecutor
) -> None:
    upload = Shipment(written(tmp_path, "a"), store, pool)
    upload.run()
    upload.run()
    assert tried(store) == ["a"]
    assert places(upload.stored()) == ["a"]


@pytest.mark.parametrize("order", [(away, forbidden), (forbidden, away)])
def test_a_lasting_error_comes_before_a_passing_one(
    tmp_path: Path,
    store: MoodyStore,
    pool: ThreadPoolExecutor,
    order: tuple[Callable[[str], ConnectorError], Callable[[str], ConnectorError]],
) -> None:
    store.refuse = lambda key: order["place=b" in key](key)
    with pytest.raises(FatalError, match="access denied"):
        Shipment(written(tmp_path, "a", "b"), store, pool).run()


def test_an_unforeseen_error_is_not_taken_for_a_passing_one(
    tmp_path: Path, store: MoodyStore, pool: ThreadPoolExecutor
) -> None:
    files = written(tmp_path, "a", "b")
    upload = Shipment(files, store, pool)

    def refuse(key: str) -> ConnectorError | None:
        if "place=b" in key:
            raise ZeroDivisionError
        return away(key)

    store.refuse = refuse
    with pytest.raises(ZeroDivisionError):
        upload.run()


def test_files_of_ended_assignments_are_not_uploaded(
    tmp_path: Path, store: MoodyStore, pool: ThreadPoolExecutor
) -> None:
    files = written(tmp_path, "a", owner="ended000") + written(tmp_path, "b", owner="mine0000")
    upload = Shipment(files, store, pool, lambda token: token == "mine0000")
    upload.run()
    assert tried(store) == ["b"]
    assert places(upload.stored()) == ["b"]


def test_files_whose_assignment_ends_while_the_store_is_away_are_not_uploaded_later(
    tmp_path: Path, store: MoodyStore, pool: ThreadPoolExecutor
) -> None:
    owners = {"first000", "second00"}
    files = written(tmp_path, "a", "c", owner="first000") + written(tmp_path, "b", owner="second00")
    store.refuse = lambda key: None if "place=a" in key else away(key)
    upload = Shipment(files, store, pool, owners.__contains__)
    with pytest.raises(RetryableError):
        upload.run()
    owners.remove("first000")
    store.refuse = lambda _: None
    store.tried.clear()
    upload.run()
    assert tried(store) == ["b"]
    assert places(upload.stored()) == ["b"], "what was uploaded of the ended assignment is not registered either"


def test_no_more_uploads_run_at_once_than_the_pool_has_threads(tmp_path: Path, store: MoodyStore) -> None:
    all_at_work = threading.Barrier(2, timeout=WAIT)
    running: list[str] = []
    most: list[int] = []

    def refuse(key: str) -> None:
        running.append(key)
        all_at_work.wait()
        most.append(len(running))
        all_at_work.wait()
        running.remove(key)

    store.refuse = refuse
    with ThreadPoolExecutor(max_workers=2) as pool:
        Shipment(written(tmp_path, *"abcdef"), store, pool).run()
    assert set(most) == {2}


def test_a_stop_ends_an_upload_that_waits_for_its_turn(tmp_path: Path, store: MoodyStore) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def refuse(_: str) -> None:
        begun.set()
        go_on.wait(WAIT)

    store.refuse = refuse
    pool = ThreadPoolExecutor(max_workers=1)
    ended: list[BaseException] = []

    def run() -> None:
        try:
            Shipment(written(tmp_path, "a", "b", "c"), store, pool).run()
        except Stopped as stopped:
            ended.append(stopped)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert begun.wait(WAIT)
    pool.shutdown(wait=False, cancel_futures=True)
    go_on.set()
    thread.join(WAIT)
    assert not thread.is_alive()
    assert len(ended) == 1
