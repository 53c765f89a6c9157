"""Big objects that are replaced as a whole, if nobody has changed them meanwhile: on every store."""

from pathlib import Path

import pytest

from app.storage.base import ChangedError
from tests.integration.storage.place import Place

KEY = "t/year=2024/f.parquet"
OLD = bytes(range(251)) * 5_000
NEW = bytes(range(241)) * 4_000


@pytest.fixture
def new(tmp_path: Path) -> Path:
    path = tmp_path / "new.parquet"
    path.write_bytes(NEW)
    return path


def stored(place: Place, tmp_path: Path, content: bytes = OLD) -> str:
    """Store the content and return the ETag that a download of it gives."""
    place.store.overwrite(KEY, content)
    return place.store.download(KEY, tmp_path / "copy.parquet")


def test_the_version_that_was_downloaded_is_replaced(place: Place, tmp_path: Path, new: Path) -> None:
    etag = stored(place, tmp_path)

    replaced = place.store.replace(new, KEY, replaces=etag)

    assert place.read(KEY) == NEW
    assert [found.key for found in place.store.list("t/")] == [KEY]
    assert (replaced.key, replaced.size) == (KEY, len(NEW))
    assert place.store.download(KEY, tmp_path / "again") != etag


def test_a_file_that_somebody_else_has_changed_stays_theirs(place: Place, tmp_path: Path, new: Path) -> None:
    etag = stored(place, tmp_path)
    stored(place, tmp_path, b"theirs")

    with pytest.raises(ChangedError, match=f"{place.store.uri}/{KEY}"):
        place.store.replace(new, KEY, replaces=etag)
    assert place.read(KEY) == b"theirs"


def test_a_file_that_was_deleted_does_not_come_back(place: Place, tmp_path: Path, new: Path) -> None:
    etag = stored(place, tmp_path)
    place.store.delete(KEY)

    with pytest.raises(ChangedError, match=f"{place.store.uri}/{KEY}"):
        place.store.replace(new, KEY, replaces=etag)
    assert list(place.store.list("t/")) == []


def test_a_folder_that_was_deleted_does_not_come_back(place: Place, new: Path) -> None:
    with pytest.raises(ChangedError):
        place.store.replace(new, "t/gone/f.parquet", replaces='"1"')
    assert list(place.store.list("")) == []


def test_a_replacement_that_is_repeated_is_done(place: Place, tmp_path: Path, new: Path) -> None:
    etag = stored(place, tmp_path)
    first = place.store.replace(new, KEY, replaces=etag)

    assert place.store.replace(new, KEY, replaces=etag).size == first.size
    assert place.read(KEY) == NEW
