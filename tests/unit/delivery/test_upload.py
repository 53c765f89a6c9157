"""Uploading the files of one batch, over a real folder."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from app.delivery.deliver import Upload
from app.errors import ConnectorError, FatalError, RetryableError
from app.model import DataFile
from tests.fakes.moody_store import MoodyStore


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(max_workers=3) as threads:
        yield threads


@pytest.fixture
def store(tmp_path: Path) -> MoodyStore:
    folder = tmp_path / "lake"
    folder.mkdir()
    return MoodyStore(folder)


def written(tmp_path: Path, *places: str) -> list[DataFile]:
    files = []
    for place in places:
        path = tmp_path / f"part-{place}.parquet"
        path.write_text(place)
        files.append(DataFile(f"data/t/place={place}/f.parquet", {"place": place}, 7, 1, path))
    return files


def upload_of(
    files: Sequence[DataFile],
    store: MoodyStore,
    pool: ThreadPoolExecutor,
    may_upload: Callable[[], bool] = lambda: True,
) -> Upload:
    return Upload(files, (), store, pool, may_upload)


def places(files: Sequence[DataFile] | None) -> list[str]:
    assert files is not None
    return [file.partition_values["place"] for file in files]


def tried(store: MoodyStore) -> list[str]:
    return sorted(key.split("place=")[1].split("/")[0] for key in store.tried)


def away(key: str) -> RetryableError:
    return RetryableError(f"uploading {key}", "the store is away")


def forbidden(key: str) -> FatalError:
    return FatalError(f"uploading {key}", "access denied")


def unforeseen(_: str) -> ConnectorError:
    raise ZeroDivisionError


def test_a_batch_is_left_out_where_another_object_has_the_name_of_one_of_its_files(
    tmp_path: Path, store: MoodyStore, pool: ThreadPoolExecutor
) -> None:
    """A placeholder for example, after another member has rolled the batch back."""
    files = written(tmp_path, "a", "b")
    other = tmp_path / "lake" / files[0].key
    other.parent.mkdir(parents=True)
    other.write_text("no rows")
    assert upload_of(files, store, pool).run() is None
    assert other.read_text() == "no rows"


def test_a_repetition_uploads_only_what_is_missing(tmp_path: Path, store: MoodyStore, pool: ThreadPoolExecutor) -> None:
    store.refuse = lambda key: away(key) if "place=b" in key else None
    upload = upload_of(written(tmp_path, "a", "b", "c"), store, pool)
    with pytest.raises(RetryableError, match="the store is away"):
        upload.run()
    assert tried(store) == ["a", "b", "c"]
    store.refuse = lambda _: None
    store.tried.clear()
    assert places(upload.run()) == ["a", "b", "c"]
    assert tried(store) == ["b"]


@pytest.mark.parametrize(
    ("answers", "told"),
    [((away, forbidden), FatalError), ((forbidden, away), FatalError), ((away, unforeseen), ZeroDivisionError)],
)
def test_a_lasting_error_comes_before_a_passing_one(
    tmp_path: Path,
    store: MoodyStore,
    pool: ThreadPoolExecutor,
    answers: tuple[Callable[[str], ConnectorError], Callable[[str], ConnectorError]],
    told: type[Exception],
) -> None:
    store.refuse = lambda key: answers["place=b" in key](key)
    with pytest.raises(told):
        upload_of(written(tmp_path, "a", "b"), store, pool).run()


def test_files_whose_assignment_ends_while_the_store_is_away_are_not_uploaded_later(
    tmp_path: Path, store: MoodyStore, pool: ThreadPoolExecutor
) -> None:
    is_owner = [True]
    store.refuse = lambda key: None if "place=a" in key else away(key)
    upload = upload_of(written(tmp_path, "a", "b", "c"), store, pool, lambda: is_owner[0])
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
        assert upload_of(written(tmp_path, "a", "b"), store, one_by_one, lambda: is_owner[0]).run() is None
    assert tried(store) == ["a"]
