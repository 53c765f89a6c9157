"""A folder on this machine or on a mounted share."""

import errno
import fcntl
import hashlib
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from app.errors import FatalError
from app.storage.base import CHUNK, Content, StoredObject
from app.storage.conditional import changed
from app.storage.document import SmallBody
from app.storage.errors import os_translated

logger = logging.getLogger(__name__)

_NO_LINKS = (
    "%s does not support hard links (%s), so a late upload may overwrite a file. The connector deletes files of rolled-"
    "back batches repeatedly instead: their rows may be duplicated for up to ten minutes after a crash"
)
# Readers skip names with a leading dot, and globs search for .parquet at the end. The prefix is short, because the
# final name may have the file system's greatest length.
_UNFINISHED = ".upload-"
_LOCK = f"{_UNFINISHED}lock"  # never deleted, because otherwise two processes could lock different files of this name


class LocalStore:
    """A folder. Object keys are paths in this folder. The folder may be missing before ``connect``."""

    def __init__(self, folder: Path) -> None:
        self._root = Path(os.path.abspath(folder))  # noqa: PTH100 - resolve() would replace links with their targets
        self.uri = f"file://{self._root}"  # not percent-encoded: DuckDB does not decode the addresses of a catalog
        self.refuses_overwrites = True
        self._logged_links: set[str] = set()

    def connect(self, prefix: str) -> None:
        """Creates a missing folder, and checks that the connector can create files below ``prefix``."""
        with os_translated(f"connecting to {self.uri}"):
            folder = self._root / prefix
            _make_folder(folder)
            probe = _unfinished_file_in(folder)
            probe.touch(exist_ok=False)
            probe.unlink()
            next(folder.iterdir(), None)

    def probe_conditions(self, prefix: str) -> None:
        """Finds out whether the file system supports hard links, because only a link never replaces a file."""
        with os_translated(f"testing {self.uri}/{prefix}"):
            _make_folder(self._root / prefix)
            first, second = (_unfinished_file_in(self._root / prefix) for _ in range(2))
            first.touch(exist_ok=False)
            try:
                second.hardlink_to(first)
            except OSError as error:
                self.refuses_overwrites = False
                logger.warning(_NO_LINKS, self.uri, error.strerror)
            finally:
                first.unlink()
                second.unlink(missing_ok=True)

    def upload(self, path: Path, key: str) -> StoredObject:
        """Copies the file to the unused ``key``. The copy is first written and synced under a different name."""
        doing = f"uploading {self.uri}/{key}"
        with self._reaching(doing, key) as target:
            _make_folder(target.parent)
            with path.open("rb") as source:
                try:
                    # A link fails if another file has the name.
                    place = os.link if self.refuses_overwrites else os.replace
                    return _stored_object(key, _put_in_place(source, target, place))
                except FileExistsError:
                    with suppress(FileNotFoundError):  # for a placeholder that was just deleted
                        if _etag_of_file(target) == _etag_of_file(path):
                            return _stored_object(key, target.stat())
                    raise changed(self.uri, key) from None

    def overwrite(self, key: str, body: bytes) -> None:
        with self._reaching(f"writing {self.uri}/{key}", key) as target:
            _make_folder(target.parent)
            _put_in_place(BytesIO(body), target)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        doing = f"listing {self.uri}/{prefix}"
        with os_translated(doing):
            self._require_root(doing)
            folder, slash, _ = prefix.rpartition("/")
            if not slash or _stays_inside(folder):
                yield from self._files(folder + slash, prefix)

    def find(self, key: str) -> StoredObject | None:
        """Returns the object. Opens the file, because the listing of a network share may be outdated."""
        with self._reaching(f"looking for {self.uri}/{key}", key) as path:
            try:
                with path.open("rb") as file:
                    stat = os.fstat(file.fileno())
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                return None
            return _stored_object(key, stat)

    def read(self, key: str) -> Content | None:
        """Reads a small file. The ETag is a hash of the file's content."""
        with self._reaching(f"reading {self.uri}/{key}", key) as path:
            body = SmallBody(f"{self.uri}/{key}")
            try:
                with path.open("rb") as file:
                    shutil.copyfileobj(file, body, CHUNK)
            except (FileNotFoundError, NotADirectoryError):
                return None
            return Content(bytes(body), _etag(body))

    def read_range(self, key: str, start: int, length: int) -> bytes:
        with self._reaching(f"reading {self.uri}/{key}", key) as path, path.open("rb") as file:
            file.seek(start)
            return file.read(length)

    def write(self, key: str, body: bytes, *, replaces: str | None) -> str:
        """See ``ObjectStore.write``. A lock excludes other writers, including writers on other machines."""
        with self._reaching(f"writing {self.uri}/{key}", key) as target:
            _make_folder(target.parent)
            with (target.parent / _LOCK).open("ab") as lock:  # the lock ends when the file or the process ends
                fcntl.flock(lock, fcntl.LOCK_EX)
                stored = _etag_of_file(target) if target.is_file() else None
                if stored == _etag(body):  # an earlier attempt failed after renaming
                    _sync_folder(target.parent)
                elif stored == replaces:
                    _put_in_place(BytesIO(body), target)
                else:
                    raise changed(self.uri, key)
        return _etag(body)

    def download(self, key: str, path: Path) -> str:
        with self._reaching(f"downloading {self.uri}/{key}", key) as source, source.open("rb") as reader:
            try:
                with path.open("wb") as writer:
                    shutil.copyfileobj(reader, writer, CHUNK)
                return _etag_of_file(path)
            except BaseException:
                path.unlink(missing_ok=True)
                raise

    def delete(self, key: str) -> None:
        with self._reaching(f"deleting {self.uri}/{key}", key) as path:
            try:
                path.unlink()
            except (FileNotFoundError, NotADirectoryError):
                return
            _sync_folder(path.parent)

    @contextmanager
    def _reaching(self, doing: str, key: str) -> Iterator[Path]:
        """Yields the path of the object key. Translates errors of the ``with`` block."""
        if not _stays_inside(key):
            cause = "the key is outside of the folder"
            raise FatalError(doing, cause, "Check S3_PREFIX and TABLE_NAME for dots and slashes")
        with os_translated(doing):
            self._require_root(doing)
            self._refresh((self._root / key).parent)
            yield self._root / key

    def _refresh(self, folder: Path) -> None:
        """Opens the folders on the path, beginning with the outermost folder.

        An NFS client caches for a minute which names exist. When a folder is opened, the client queries the server
        ("close-to-open"). Otherwise files or journals of another replica might seem to be missing.
        """
        if folder != self._root:
            self._refresh(folder.parent)
        with suppress(OSError):  # the next step reports the error
            os.close(os.open(folder, os.O_RDONLY | os.O_DIRECTORY))

    def _require_root(self, doing: str) -> None:
        """Raises an error if the folder is missing, because an unmounted share must not look like an empty lake."""
        if not self._root.is_dir():
            raise FatalError(doing, f"the folder {self._root} is missing", "Restore it (is it mounted?) and restart")

    def _files(self, folder: str, prefix: str) -> Iterator[StoredObject]:
        """Yields the files below ``folder`` (empty, or with a slash at the end). Skips files that are just deleted.

        Symbolic links are also skipped, because they may lead to files outside of the store.
        """
        try:
            with os.scandir(self._root / folder) as entries:
                ordered = sorted(entries, key=_sort_key)
        except (FileNotFoundError, NotADirectoryError):
            return
        for entry in ordered:
            key = folder + entry.name
            if entry.is_symlink():
                if key not in self._logged_links:
                    logger.warning("%s/%s is a symbolic link: skipped. Mount the folder there instead", self.uri, key)
                self._logged_links.add(key)
            elif entry.is_dir():
                if f"{key}/".startswith(prefix):
                    yield from self._files(f"{key}/", prefix)
            elif key.startswith(prefix) and entry.is_file() and not entry.name.startswith(_UNFINISHED):
                try:
                    stored = _stored_object(key, entry.stat())
                except FileNotFoundError:
                    continue
                yield stored


def _stays_inside(key: str) -> bool:
    """Whether every component of the path is the name of a file or folder, and not ``..``."""
    return not {"", ".", ".."}.intersection(key.split("/"))


def _sort_key(entry: os.DirEntry[str]) -> bytes:
    """Returns the sort key for the order of object keys by UTF-8 bytes: ``a.b`` precedes ``a/b``."""
    return os.fsencode(f"{entry.name}/" if entry.is_dir() else entry.name)


def _unfinished_file_in(folder: Path) -> Path:
    return folder / f"{_UNFINISHED}{uuid4().hex}"


def _make_folder(folder: Path) -> None:
    """Creates the folder and its parents. Each folder is synced before the next folder is created."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    folder.mkdir(exist_ok=True)  # another thread or replica may have been quicker
    _sync_folder(folder.parent)


def _etag(body: bytes | bytearray) -> str:
    return hashlib.sha256(body).hexdigest()


def _etag_of_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _put_in_place(source: BinaryIO, target: Path, place: Callable[[Path, Path], object] = os.replace) -> os.stat_result:
    """Writes and syncs the file under a different name. ``place`` then links or moves this file to ``target``."""
    unfinished = _unfinished_file_in(target.parent)
    try:
        with unfinished.open("xb") as writer:
            shutil.copyfileobj(source, writer, CHUNK)
            writer.flush()
            os.fsync(writer.fileno())
            stat = os.fstat(writer.fileno())
        place(unfinished, target)
    finally:
        unfinished.unlink(missing_ok=True)
    _sync_folder(target.parent)
    return stat


def _sync_folder(folder: Path) -> None:
    """Syncs the folder's list of names to the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems cannot sync folders
            raise
    finally:
        os.close(descriptor)


def _stored_object(key: str, stat: os.stat_result) -> StoredObject:
    return StoredObject(key, stat.st_size, datetime.fromtimestamp(stat.st_mtime, UTC))
