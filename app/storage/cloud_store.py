"""A bucket that is used through an SDK. S3, Google Cloud Storage and Azure share this code."""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from pathlib import Path
from threading import Semaphore
from typing import BinaryIO, Protocol

from app.errors import ConfigError, FatalError, RetryableError
from app.storage.base import Content, StoredObject
from app.storage.conditional import WHATEVER_IS_THERE, ConditionalWriter, Replaces, Seen, Version, own_object
from app.storage.document import SmallBody
from app.storage.errors import os_translated

_SPARE_CONNECTIONS = 2  # connections in addition to upload threads: for a listing, and for a late return to the pool
_Content = bytes | Path  # the body of a small object, or the path of a file


class UnexpectedAnswerError(Exception):
    """An answer that does not come from a store, such as a proxy's web page with status 200."""


class MissingBucketError(FatalError):
    """The bucket does not exist."""


class Sink(Protocol):
    """Accepts the bytes of an object as they arrive. Each call accepts all given bytes."""

    def write(self, data: bytes, /) -> int: ...


class CloudStore(ABC):
    """One bucket. A subclass maps the calls of an SDK and its errors.

    ``proxy_hint`` is the hint if a proxy answers instead of the store. More threads than ``max_workers`` must wait.
    """

    def __init__(self, uri: str, proxy_hint: str, max_workers: int) -> None:
        self.uri = uri
        self._proxy_hint = proxy_hint
        self._connections = max_workers + _SPARE_CONNECTIONS
        self._free = Semaphore(self._connections)
        self._prefix = ""  # prefix of all object keys to be written
        self._is_connected = False
        self._documents = ConditionalWriter[_Content](uri, partial(self._put, "writing"), self._compare)
        self._files = ConditionalWriter[_Content](uri, partial(self._put, "uploading"), self._compare)

    # --- the calls of an SDK -----------------------------------------------------------------------------------------

    @abstractmethod
    def _translate(self, error: Exception, doing: str, key: str, /) -> None:
        """Raises ``ConnectorError`` for an error of the SDK, and ``MissingBucketError`` for a missing bucket."""

    @abstractmethod
    def _pages(self, prefix: str, size: int | None = None) -> Iterator[list[StoredObject]]:
        """Yields pages of objects in the order of object keys, with at most ``size`` objects per page."""

    @abstractmethod
    def _fetch(self, key: str, into: Sink, start: int = 0, length: int | None = None) -> Version | None:
        """Reads an object or a range in chunks. Returns ``None`` if the object does not exist."""

    @abstractmethod
    def _send(self, key: str, body: BinaryIO, size: int, replaces: Replaces) -> Version:
        """Replaces the version ``replaces``. Readers see the complete new object or the complete old object.

        Raises ``ChangedError`` if the stored version differs, and ``NoConditionsError`` for a store without conditions.
        """

    @abstractmethod
    def _remove(self, key: str) -> None:
        """Deletes an object. If the object is missing, the call succeeds."""

    @property
    def _account(self) -> str:
        """The account of the bucket, for messages; empty if the address contains the account."""
        return ""

    # --- as ``ObjectStore`` -----------------------------------------------------------------------------------------

    def connect(self, prefix: str) -> None:
        """Checks with a listing that the bucket exists, because a refused listing contains the reason."""
        self._prefix = prefix
        try:
            self._list_one(prefix)
        except MissingBucketError as error:
            self._create_bucket(error)
            self._list_one(prefix)
        self._is_connected = True

    def probe_conditions(self, prefix: str) -> None:
        """Tries conditional writes and all needed rights on a test object, then deletes the test object."""
        with own_object(prefix, self.delete) as key:
            self._files.rely_on_conditions(self._probe(key))
            self.read(key)

    @property
    def refuses_overwrites(self) -> bool:
        return self._files.has_conditions

    def upload(self, path: Path, key: str) -> StoredObject:
        version = self._files.create(key, path)
        return StoredObject(key, path.stat().st_size, version.last_modified)

    def overwrite(self, key: str, body: bytes) -> None:
        self._put("writing", key, body, WHATEVER_IS_THERE)

    def write(self, key: str, body: bytes, *, replaces: str | None) -> str:
        return self._documents.write(key, body, replaces).etag

    def list(self, prefix: str) -> Iterator[StoredObject]:
        pages = self._pages(prefix)
        while True:
            with self._doing("listing", prefix):
                page = next(pages, None)
            if page is None:
                return
            yield from page

    def find(self, key: str) -> StoredObject | None:
        """Uses a listing, because the answer to a refused HEAD does not contain the reason."""
        return next((stored for stored in self.list(key) if stored.key == key), None)

    def read(self, key: str) -> Content | None:
        body = SmallBody(f"{self.uri}/{key}")
        with self._doing("reading", key):
            version = self._fetch(key, body)
        return Content(bytes(body), version.etag) if version else None

    def read_range(self, key: str, start: int, length: int) -> bytes:
        if not length:  # HTTP has no empty range
            return b""
        body = BytesIO()
        with self._doing("reading", key) as doing:
            _require(self._fetch(key, body, start, length), doing)
        return body.getvalue()

    def download(self, key: str, path: Path) -> str:
        with self._doing("downloading", key) as doing:
            try:
                with path.open("wb") as file:
                    return _require(self._fetch(key, file), doing).etag
            except BaseException:
                path.unlink(missing_ok=True)
                raise

    def delete(self, key: str) -> None:
        with self._doing("deleting", key):
            self._remove(key)

    # --- inside -----------------------------------------------------------------------------------------------------

    @contextmanager
    def _doing(self, verb: str, key: str = "") -> Iterator[str]:
        """Waits for a free connection, then works like ``_named``."""
        with self._free, self._named(verb, key) as doing:
            yield doing

    @contextmanager
    def _named(self, verb: str, key: str = "") -> Iterator[str]:
        """Translates errors of the ``with`` block. Yields the name of the operation for messages."""
        doing = f"{verb} {self.uri}{f'/{key}' if key else ''}{self._account}"
        try:
            with os_translated(doing):
                try:
                    yield doing
                except Exception as error:
                    self._translate(error, doing, key)
                    raise
        except UnexpectedAnswerError as error:
            raise RetryableError(doing, str(error), self._proxy_hint) from error

    def _list_one(self, prefix: str) -> None:
        with self._doing("connecting to") as doing:
            try:
                next(self._pages(prefix, size=1), None)
            except UnexpectedAnswerError as error:  # a server that answers 200 to each request would lose every upload
                raise ConfigError(doing, str(error), self._proxy_hint) from error

    def _create_bucket(self, missing: MissingBucketError) -> None:
        """Creates the bucket if the subclass supports this. Otherwise raises ``missing``."""
        raise ConfigError(missing.doing, missing.cause, missing.hint) from missing

    def _probe(self, key: str) -> bool:
        """Writes a test object. Returns whether the store supports conditions for files of any size."""
        return self._documents.probe(key, b"{}", b'{"second": true}')

    def _put(self, verb: str, key: str, content: _Content, replaces: Replaces) -> Version:
        with self._doing(verb, key), _open(content) as body:
            size = body.seek(0, os.SEEK_END)
            body.seek(0)
            return self._send(key, body, size, replaces)

    def _compare(self, key: str, content: _Content) -> Seen | None:
        with self._doing("reading", key), _open(content) as ours:
            comparison = _Comparison(ours)
            version = self._fetch(key, comparison)
            return Seen(version, comparison.is_same()) if version else None


class _Comparison:
    """Compares arriving bytes with a file, without keeping the bytes."""

    def __init__(self, ours: BinaryIO) -> None:
        self._ours = ours
        self._same = True

    def write(self, data: bytes, /) -> int:
        self._same = self._same and self._ours.read(len(data)) == data
        return len(data)

    def is_same(self) -> bool:
        """Whether the arrived bytes equal the bytes of the file."""
        return self._same and not self._ours.read(1)


def _open(content: _Content) -> BinaryIO:
    return BytesIO(content) if isinstance(content, bytes) else content.open("rb")


def _require(version: Version | None, doing: str) -> Version:
    if version is None:
        raise FatalError(doing, "the object does not exist", "It was deleted meanwhile; restart")
    return version
