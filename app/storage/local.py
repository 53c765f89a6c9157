"""A folder on this machine or on a mounted share."""

import errno
import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from app.errors import ConfigError, FatalError
from app.storage.base import StoredObject
from app.storage.os_errors import os_translated

# Readers skip names that begin with a dot, and globs look for .parquet at the end. Short, because the final name may
# already be as long as the file system allows.
_UNFINISHED = ".upload-"


class LocalStore:
    """A folder; keys are paths inside it.

    Args:
        folder: made absolute; need not be there before ``connect``.
    """

    def __init__(self, folder: Path) -> None:
        self._root = Path(os.path.abspath(folder))  # noqa: PTH100 - resolve() would replace links by their targets

    @property
    def uri(self) -> str:
        """``file:///folder``, not percent-encoded: DuckDB, reading by the addresses in a catalog, does not decode."""
        return f"file://{self._root}"

    def connect(self, prefix: str) -> None:
        """Create the folder when missing, and prove that it can be written and listed where the prefix leads."""
        doing = f"connecting to {self.uri}"
        if self._root.exists() and not self._root.is_dir():
            raise ConfigError(doing, "it is a file, not a folder", "Set STORAGE_URL to the address of a folder")
        with os_translated(doing):
            folder = self._root / prefix
            _make_folder(folder)
            probe = _unfinished_file_in(folder)
            probe.touch(exist_ok=False)
            probe.unlink()
            next(folder.iterdir(), None)

    def upload(self, path: Path, key: str) -> StoredObject:
        """Copy the file under ``key``: complete and on the disk under another name first, then renamed."""
        doing = f"uploading {self.uri}/{key}"
        if not _stays_inside(key):
            raise FatalError(doing, "the key leaves the folder", "Check S3_PREFIX and TABLE_NAME for dots and slashes")
        target = self._root / key
        with os_translated(doing):
            self._require_root(doing)
            _make_folder(target.parent)
            unfinished = _unfinished_file_in(target.parent)
            try:
                stat = _copy_to_disk(path, unfinished)
                unfinished.replace(target)
            except BaseException:
                unfinished.unlink(missing_ok=True)
                raise
            _sync_folder(target.parent)
        return _stored_object(key, stat)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Yield the files whose key starts with ``prefix`` in the order of their keys, one folder at a time."""
        doing = f"listing {self.uri}/{prefix}"
        with os_translated(doing):
            self._require_root(doing)
            folder, slash, _ = prefix.rpartition("/")
            if not slash or _stays_inside(folder):
                yield from self._files(folder + slash, prefix)

    def _require_root(self, doing: str) -> None:
        """Refuse a folder that went away: a share that is no longer mounted must not look like an empty lake."""
        if not self._root.is_dir():
            raise FatalError(doing, f"the folder {self._root} is gone", "Bring it back (is it mounted?) and restart")

    def _files(self, folder: str, prefix: str) -> Iterator[StoredObject]:
        """Files below ``folder`` (empty, or ending with a slash). What is deleted meanwhile is left out."""
        try:
            with os.scandir(self._root / folder) as entries:
                ordered = sorted(entries, key=_place_among_keys)
        except (FileNotFoundError, NotADirectoryError):
            return
        for entry in ordered:
            key = folder + entry.name
            if entry.is_dir():
                if f"{key}/".startswith(prefix):
                    yield from self._files(f"{key}/", prefix)
            elif key.startswith(prefix) and entry.is_file() and not entry.name.startswith(_UNFINISHED):
                try:
                    found = _stored_object(key, entry.stat())
                except FileNotFoundError:
                    continue
                yield found


def _stays_inside(key: str) -> bool:
    """Whether every component of the path names a file or folder of its own."""
    return not {"", ".", ".."}.intersection(key.split("/"))


def _place_among_keys(entry: os.DirEntry[str]) -> bytes:
    """What to sort by so that whole keys come out in the order of their UTF-8 bytes: ``a.b`` before ``a/b``."""
    return os.fsencode(f"{entry.name}/" if entry.is_dir() else entry.name)


def _unfinished_file_in(folder: Path) -> Path:
    return folder / f"{_UNFINISHED}{uuid4().hex}"


def _make_folder(folder: Path) -> None:
    """Create the folder and its parents, each of them on the disk before the next."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    folder.mkdir(exist_ok=True)  # another thread or replica may have been quicker
    _sync_folder(folder.parent)


def _copy_to_disk(source: Path, target: Path) -> os.stat_result:
    with source.open("rb") as reader, target.open("xb") as writer:
        shutil.copyfileobj(reader, writer, 1 << 20)
        writer.flush()
        os.fsync(writer.fileno())
        return os.fstat(writer.fileno())


def _sync_folder(folder: Path) -> None:
    """Put the folder's list of names on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # how some network file systems say that they cannot
            raise
    finally:
        os.close(descriptor)


def _stored_object(key: str, stat: os.stat_result) -> StoredObject:
    return StoredObject(key, stat.st_size, datetime.fromtimestamp(stat.st_mtime, UTC))
