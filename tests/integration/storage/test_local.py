"""What only a folder can do wrong."""

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.errors import FatalError, RetryableError
from app.storage.base import ChangedError
from app.storage.errors import os_translated
from app.storage.local.store import LocalStore
from tests.support.waiting import wait_until

NOBODY = 65534


def test_the_address_is_the_absolute_path_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert LocalStore(Path("my lake/100%")).uri == f"file://{tmp_path}/my lake/100%"


def test_a_missing_folder_is_created_with_its_parents(tmp_path: Path, file: Path) -> None:
    store = LocalStore(tmp_path / "not" / "yet" / "there")

    store.connect("")
    store.upload(file, "t/f.parquet")

    assert (tmp_path / "not/yet/there/t/f.parquet").read_bytes() == b"PAR1"
    assert [found.key for found in store.list("")] == ["t/f.parquet"]


def test_a_file_in_the_place_of_a_parent_is_fatal_and_named(file: Path) -> None:
    with pytest.raises(FatalError, match=f"connecting to file://{file}/lake.*{file}"):
        LocalStore(file / "lake").connect("")


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    store = LocalStore(tmp_path / "lake")
    store.connect("")
    return store


@pytest.mark.parametrize("key", ["../f", "t/../../f", "/etc/f", "t//f", "t/./f", "", "t/"])
def test_a_key_that_leaves_the_folder_is_refused(store: LocalStore, tmp_path: Path, file: Path, key: str) -> None:
    with pytest.raises(FatalError, match="the key is outside of the folder"):
        store.upload(file, key)

    assert sorted(path.name for path in tmp_path.rglob("*")) == ["lake", "source.parquet"]


@pytest.mark.parametrize("prefix", ["../lake/", "../", "/", "t//", "t/../t/", "./t/"])
def test_a_prefix_that_no_key_can_have_finds_nothing(store: LocalStore, file: Path, prefix: str) -> None:
    store.upload(file, "t/f")

    assert list(store.list(prefix)) == []


def test_links_to_files_of_others_are_not_listed_and_one_above_the_prefix_is_followed(
    store: LocalStore, tmp_path: Path, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store.upload(file, "t/f")
    (tmp_path / "lake/t/linked-file").symlink_to(file)
    (tmp_path / "lake/t/linked-folder").symlink_to(tmp_path)
    (tmp_path / "lake/t/broken").symlink_to(tmp_path / "nothing")
    (tmp_path / "lake/l").symlink_to(tmp_path / "lake/t")
    (tmp_path / "link").symlink_to(tmp_path / "lake")
    for _ in range(2):
        assert [found.key for found in store.list("t/")] == ["t/f"]
    assert sum("linked-folder" in message for message in caplog.messages) == 1, "told once"
    assert [found.key for found in LocalStore(tmp_path / "link").list("l/")] == ["l/f"]


def test_readers_see_nothing_of_a_file_before_it_is_whole(store: LocalStore, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "slow")
    with ThreadPoolExecutor(1) as pool:
        upload = pool.submit(store.upload, tmp_path / "slow", "t/f")
        with (tmp_path / "slow").open("wb", buffering=0) as source:
            source.write(b"half")
            copy = (tmp_path / "lake/t").glob
            wait_until(lambda: upload.done() or list(copy(".upload-*")), "the beginning of the copy")
            assert not upload.done()
            assert list(store.list("")) == []
            source.write(b" and half")
        stored = upload.result()

    assert (stored.size, (tmp_path / "lake/t/f").read_bytes()) == (13, b"half and half")
    assert not list((tmp_path / "lake/t").glob(".*"))


@pytest.mark.parametrize(("taken", "key"), [("t/f/", "t/f"), ("t", "t/f")])
def test_a_name_that_is_taken_by_the_other_kind_is_fatal_and_leaves_nothing_behind(
    store: LocalStore, tmp_path: Path, file: Path, taken: str, key: str
) -> None:
    if taken.endswith("/"):
        (tmp_path / "lake" / taken).mkdir(parents=True)
    else:
        shutil.copy(file, tmp_path / "lake" / taken)

    with pytest.raises(FatalError, match=r"uploading .*t/f: (Is a directory|File exists)"):
        store.upload(file, key)

    assert [found.key for found in store.list("")] in ([], ["t"])
    assert not list((tmp_path / "lake").rglob(".*"))


def test_what_is_deleted_while_it_is_listed_is_left_out(store: LocalStore, tmp_path: Path, file: Path) -> None:
    for key in ("a/1", "a/2", "b/1", "c"):
        store.upload(file, key)

    listing = store.list("")
    first = next(listing).key
    (tmp_path / "lake/a/2").unlink()
    shutil.rmtree(tmp_path / "lake/b")

    assert [first, *(found.key for found in listing)] == ["a/1", "c"]


def test_the_longest_name_that_the_file_system_allows_can_be_uploaded(tmp_path: Path, file: Path) -> None:
    name = "n" * 255

    LocalStore(tmp_path).upload(file, name)

    with pytest.raises(FatalError, match="uploading"):
        LocalStore(tmp_path).upload(file, name + "n")


def test_a_folder_that_may_not_be_written_is_fatal_and_says_whose_right_is_missing(file: Path) -> None:
    with folder_of_somebody_else() as folder, as_ordinary_user():
        store = LocalStore(folder / "lake")
        with pytest.raises(
            FatalError, match=f"connecting to file://{folder}/lake: Permission denied.*the right to read and write"
        ):
            store.connect("")
        with pytest.raises(
            FatalError, match=f"connecting to file://{folder}: Permission denied.*the right to read and write"
        ):
            LocalStore(folder).connect("")


@pytest.mark.parametrize(
    ("number", "hint"),
    [
        *((each, "Check that the disk or network share is up") for each in (errno.EIO, errno.ESTALE, errno.EBUSY)),
        (errno.ENOSPC, "Free some space on that disk"),
    ],
)
def test_a_share_whose_server_is_away_and_a_full_disk_are_retryable(number: int, hint: str) -> None:
    with pytest.raises(RetryableError) as told, os_translated("uploading file:///lake/f"):
        raise OSError(number, os.strerror(number), "/lake/f")
    assert str(told.value) == f"uploading file:///lake/f: {os.strerror(number)}: /lake/f. {hint}"


@contextmanager
def folder_of_somebody_else() -> Iterator[Path]:
    """A folder that everybody may look into and nobody else may write to."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o555)
    yield folder
    folder.chmod(0o700)
    shutil.rmtree(folder)


@contextmanager
def as_ordinary_user() -> Iterator[None]:
    """Root may write anywhere; so be somebody else meanwhile."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)


def test_the_folders_of_a_share_are_looked_at_anew(
    store: LocalStore, tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client of NFS asks its server when a folder is opened; else it goes by what it remembers, for a minute."""
    store.upload(file, "t/p=a/f.parquet")
    store.write("t/_journal/0.json", b"{}", replaces=None)
    opened: list[str] = []
    really = os.open

    def note(path: str | Path, *flags: int) -> int:
        opened.append(os.path.relpath(path, tmp_path))
        return really(path, *flags)

    monkeypatch.setattr(os, "open", note)
    found = store.find("t/p=a/f.parquet")
    assert found is not None
    assert found.size == 4
    assert opened == ["lake", "lake/t", "lake/t/p=a"]
    opened.clear()
    assert store.read("t/_journal/0.json") is not None
    assert opened[:3] == ["lake", "lake/t", "lake/t/_journal"]
    opened.clear()
    with pytest.raises(ChangedError):
        store.write("t/_journal/0.json", b"[]", replaces=None)
    assert opened[:3] == ["lake", "lake/t", "lake/t/_journal"]


@pytest.mark.parametrize("key", ["t/none", "t/none/f", "t/f.parquet/f", "t"])
def test_what_is_no_file_is_not_found(store: LocalStore, file: Path, key: str) -> None:
    store.upload(file, "t/f.parquet")
    assert store.find(key) is None
