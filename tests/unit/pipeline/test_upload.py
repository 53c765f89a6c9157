"""Uploading and registering the files of one batch, over a real folder."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from app.errors import ConnectorError, FatalError, RetryableError
from app.journal.entry import JournaledFile
from app.journal.generation import Intent
from app.model import OutputFile, StoredFile, TopicPartition, WrittenFile
from app.pipeline.upload import Destination, Upload, UploadItem
from app.retry import Stopped
from tests.fakes.moody_store import MoodyStore
from tests.support.batches import part

ROOT = "data/t"
TP, OTHER = TopicPartition("sensors", 0), TopicPartition("sensors", 1)
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


def written(tmp_path: Path, *places: str) -> list[WrittenFile]:
    """One file for each of these values of the column ``place``, its content the value."""
    files = []
    for place in places:
        path = tmp_path / f"part-{place}.parquet"
        path.write_text(place)
        files.append(WrittenFile(path, path.stat().st_size, OutputFile((part(),), {"place": place}, 7)))
    return files


class Shipment:
    """The upload of data files, and what the catalog would hear of them."""

    def __init__(
        self,
        files: Sequence[WrittenFile],
        store: MoodyStore,
        pool: ThreadPoolExecutor,
        may_upload: Callable[[], bool] = lambda: True,
    ) -> None:
        self._files = files
        self._destination = Destination(store, ROOT)
        self._upload = Upload([self._destination.data_file(file) for file in files], (), store, pool, may_upload)

    def run(self) -> list[StoredFile] | None:
        stored = self._upload.run()
        return None if stored is None else self._destination.stored_files(self._files, stored, {})


def places(files: Sequence[StoredFile] | None) -> list[str]:
    assert files is not None
    return [file.partition_values["place"] for file in files]


def tried(store: MoodyStore) -> list[str]:
    """The places whose upload was tried, in order of their names."""
    return sorted(key.split("place=")[1].split("/")[0] for key in store.tried)


def away(key: str) -> RetryableError:
    return RetryableError(f"uploading {key}", "the store is away")


def forbidden(key: str) -> FatalError:
    return FatalError(f"uploading {key}", "access denied")


# --- what is announced ----------------------------------------------------------------------------------------------


def test_a_batch_is_announced_with_the_last_offset_of_each_partition_and_all_its_objects(
    tmp_path: Path, store: MoodyStore
) -> None:
    destination = Destination(store, ROOT)
    files = written(tmp_path, "a", "b")
    items = [destination.data_file(file) for file in files] + [UploadItem(tmp_path / "x", "data/dead letter", 4)]
    parts = [part(last=9, number=3), part(OTHER, last=20, number=3)]
    name = "data_sensors-0_0000000000000000000-9_0a1b2c3d4e5f607100000003-0.parquet"
    assert destination.intent(parts, files, items, {TP: 12, OTHER: 20}) == Intent(
        3,
        [each.offsets for each in parts],
        tuple(
            JournaledFile(key=f"{ROOT}/place={place}/{name}", size=1, rows=7, partition_values={"place": place})
            for place in ("a", "b")
        ),
        {"data/dead letter": 4},
        {TP: 12, OTHER: 20},
    )


# --- upload ---------------------------------------------------------------------------------------------------------


def test_a_batch_is_left_out_where_another_object_has_the_name_of_one_of_its_files(
    tmp_path: Path, store: MoodyStore, pool: ThreadPoolExecutor
) -> None:
    """A placeholder for example, after another member has rolled the batch back."""
    files = written(tmp_path, "a", "b")
    other = tmp_path / "lake" / Destination(store, ROOT).data_file(files[0]).key
    other.parent.mkdir(parents=True)
    other.write_text("no rows")
    assert Shipment(files, store, pool).run() is None
    assert other.read_text() == "no rows"


def test_all_files_are_stored_under_their_keys(tmp_path: Path, store: MoodyStore, pool: ThreadPoolExecutor) -> None:
    stored = Shipment(written(tmp_path, "NYC", "a%2Fb"), store, pool).run()
    name = "data_sensors-0_0000000000000000000-9_0a1b2c3d4e5f607100000003-0.parquet"
    assert stored is not None
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
    assert tried(store) == ["a", "b", "c"]
    store.refuse = lambda _: None
    store.tried.clear()
    assert places(upload.run()) == ["a", "b", "c"]
    assert tried(store) == ["b"]


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


def test_files_whose_assignment_ends_while_the_store_is_away_are_not_uploaded_later(
    tmp_path: Path, store: MoodyStore, pool: ThreadPoolExecutor
) -> None:
    is_owner = [True]
    store.refuse = lambda key: None if "place=a" in key else away(key)
    upload = Shipment(written(tmp_path, "a", "b", "c"), store, pool, lambda: is_owner[0])
    with pytest.raises(RetryableError):
        upload.run()
    is_owner[0] = False
    store.refuse = lambda _: None
    store.tried.clear()
    assert upload.run() is None, "what was uploaded is not registered either"
    assert tried(store) == []


def test_an_assignment_that_ends_during_an_upload_does_not_wait_for_the_store(
    tmp_path: Path, store: MoodyStore, pool: ThreadPoolExecutor
) -> None:
    is_owner = [True]

    def refuse(key: str) -> ConnectorError:
        is_owner[0] = False
        return away(key)

    store.refuse = refuse
    with ThreadPoolExecutor(max_workers=1) as one_by_one:
        assert Shipment(written(tmp_path, "a", "b"), store, one_by_one, lambda: is_owner[0]).run() is None
    assert tried(store) == ["a"]


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
