"""Small objects that several writers replace, reading parts of big ones, and taking objects away: on every store."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from app.errors import FatalError
from app.storage.base import ChangedError, Content
from tests.integration.storage.conftest import Place
from tests.support.waiting import wait_until

KEY = "t/_journal/schema.json"


@pytest.fixture
def big(place: Place, tmp_path: Path) -> bytes:
    """What lies under ``t/f.parquet``."""
    content = bytes(range(251)) * 9_000
    path = tmp_path / "source.parquet"
    path.write_bytes(content)
    place.store.upload(path, "t/f.parquet")
    return content


def test_what_is_written_is_read_with_the_etag_that_writing_gave(place: Place) -> None:
    assert place.store.read(KEY) is None
    assert place.store.read("t/_journal") is None

    etag = place.store.write(KEY, b"{}", replaces=None)

    assert place.store.read(KEY) == Content(b"{}", etag)
    assert place.read(KEY) == b"{}"
    assert [(found.key, found.size) for found in place.store.list("t/")] == [(KEY, 2)]


def test_a_version_of_somebody_else_is_not_replaced(place: Place) -> None:
    old = place.store.write(KEY, b"old", replaces=None)
    with pytest.raises(ChangedError, match=f"{place.store.uri}/{KEY}"):
        place.store.write(KEY, b"ours", replaces=None)

    place.store.write(KEY, b"theirs", replaces=old)
    with pytest.raises(ChangedError):
        place.store.write(KEY, b"ours", replaces=old)
    assert place.read(KEY) == b"theirs"


def test_an_object_that_was_deleted_is_not_replaced(place: Place) -> None:
    old = place.store.write(KEY, b"old", replaces=None)
    place.store.delete(KEY)

    with pytest.raises(ChangedError):
        place.store.write(KEY, b"ours", replaces=old)
    assert place.store.read(KEY) is None


def test_what_already_holds_our_body_counts_as_written(place: Place) -> None:
    first = place.store.write(KEY, b"ours", replaces=None)

    assert place.store.write(KEY, b"ours", replaces=None) == first
    again = place.store.write(KEY, b"ours", replaces=first)  # a new version where versions are not hashes of the body
    assert place.store.read(KEY) == Content(b"ours", again)


def test_of_many_writers_at_once_each_version_has_one_successor(deciding_place: Place) -> None:
    """A counter that several threads raise: what one counts is never lost to another."""
    writers, rounds = 4, 5
    start = threading.Barrier(writers)
    deciding_place.store.write(KEY, b"0", replaces=None)

    def is_raised(name: int) -> bool:
        found = deciding_place.store.read(KEY)
        assert found is not None
        body = b"%d by %d" % (int(found.body.split()[0]) + 1, name)
        with suppress(ChangedError):
            deciding_place.store.write(KEY, body, replaces=found.etag)
            return True
        return False

    def count(name: int) -> None:
        start.wait()
        for _ in range(rounds):
            wait_until(lambda: is_raised(name), "a version of its own", pause=0)

    with ThreadPoolExecutor(writers) as pool:
        list(pool.map(count, range(writers)))

    assert deciding_place.read(KEY).split()[0] == b"%d" % (writers * rounds)
    assert [found.key for found in deciding_place.store.list("")] == [KEY]


def test_it_is_read_in_part_up_to_its_end_and_as_a_whole(place: Place, big: bytes, tmp_path: Path) -> None:
    for start, length in [(0, 4), (0, 0), (1_000_000, 300_000), (2_258_990, 10), (2_258_990, 11), (2_258_990, 9_999)]:
        assert place.store.read_range("t/f.parquet", start, length) == big[start : start + length], (start, length)

    place.store.download("t/f.parquet", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == big


def test_a_deleted_object_is_gone_and_can_be_deleted_again(place: Place, big: bytes) -> None:
    place.store.delete("t/f.parquet")
    place.store.delete("t/f.parquet")
    place.store.delete("never/was/there")
    place.store.delete("t/f.parquet/neither")

    assert list(place.store.list("")) == []
    assert place.store.read("t/f.parquet") is None


def test_an_object_that_should_be_there_and_is_not_is_fatal_and_named(place: Place, tmp_path: Path) -> None:
    calls: dict[str, Callable[[], object]] = {
        "downloading": lambda: place.store.download("t/gone", tmp_path / "copy"),
        "reading": lambda: place.store.read_range("t/gone", 0, 1),
    }
    for verb, call in calls.items():
        with pytest.raises(FatalError, match=f"{verb} {place.store.uri}/t/gone") as caught:
            call()
        assert "deleted meanwhile" in caught.value.hint
    assert not (tmp_path / "copy").exists()


def test_a_download_that_has_no_place_to_go_is_fatal_and_named(place: Place, big: bytes, tmp_path: Path) -> None:
    with pytest.raises(FatalError, match=r"downloading .*t/f\.parquet.*no-folder"):
        place.store.download("t/f.parquet", tmp_path / "no-folder" / "copy")


def test_a_place_that_goes_away_refuses_everything(place: Place, tmp_path: Path) -> None:
    place.store.connect("")
    place.remove()

    for attempt in (
        lambda: place.store.read(KEY),
        lambda: place.store.read_range(KEY, 0, 1),
        lambda: place.store.write(KEY, b"{}", replaces=None),
        lambda: place.store.write(KEY, b"{}", replaces="0"),
        lambda: place.store.download(KEY, tmp_path / "copy"),
        lambda: place.store.delete(KEY),
    ):
        with pytest.raises(FatalError, match=f"{place.store.uri}/{KEY}.*restart"):
            attempt()
