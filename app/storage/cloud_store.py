"""A bucket that is used through an SDK: the common part of S3, Google Cloud Storage and Azure."""

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

_SPARE_CONNECTIONS = 2  # beyond the upload threads: for a listing, and for one that returns to the pool
_Content = bytes | Path  # a small object, or a file


class UnexpectedAnswerError(Exception):
    """An answer that does not come from a store, such as a proxy's web page with status 200."""


class MissingBucketError(FatalError):
    """The bucket does not exist."""


class Sink(Protocol):
    """Accepts the bytes of an object as they arrive; each call accepts all of them."""

    def write(self, data: bytes, /) -> int: ...


class CloudStore(ABC):
    """One bucket. A subclass maps the calls of an SDK and its errors.

    ``proxy_hint`` is the hint if a proxy answers instead of the store. Threads beyond ``max_workers`` wait.
    """

    def __init__(self, uri: str, proxy_hint: str, max_workers: int) -> None:
        self.uri = uri
        self._proxy_hint = proxy_hint
        self._connections = max_workers + _SPARE_CONNECTIONS
        self._free = Semaphore(self._connections)
        self._prefix = ""  # prefix of all keys to be written
        self._is_connected = False
        self._documents = ConditionalWriter[_Content](uri, partial(self._put, "writing"), self._compare)
        self._files = ConditionalWriter[_Content](uri, partial(self._put, "uploading"), self._compare)

    # --- the calls of an SDK -----------------------------------------------------------------------------------------

    @abstractmethod
    def _translate(self, error: Exception, doing: str, key: str, /) -> None:
        """Raises an error of the SDK as ``ConnectorError``, a missing bucket as ``MissingBucketError``."""

    @abstractmethod
    def _pages(self, prefix: str, size: int | None = None) -> Iterator[list[StoredObject]]:
        """Lists page by page in the order of keys, at most ``size`` objects per page."""

    @abstractmethod
    def _fetch(self, key: str, into: Sink, start: int = 0, length: int | None = None) -> Version | None:
        """Reads an object, or a part of it, in chunks; ``None`` if it does not exist."""

    @abstractmethod
    def _send(self, key: str, body: BinaryIO, size: int, replaces: Replaces) -> Version:
        """Replaces that version; readers see the complete new object or the old one.

        Raises ``ChangedError`` if the stored version differs, ``NoConditionsError`` for a store without conditions.
        """

    @abstractmethod
    def _remove(self, key: str) -> None:
        """Deletes an object; a missing object counts as deleted."""

    @property
    def _account(self) -> str:
        """The bucket's account, for messages; empty if the address contains it."""
        return ""

    # --- as ``ObjectStore`` -----------------------------------------------------------------------------------------

    def connect(self, prefix: str) -> None:
        """Checks that the bucket exists, with a listing: it needs no other right, and a refusal contains the reason."""
        self._prefix = prefix
        try:
            self._list_one(prefix)
        except MissingBucketError as error:
            self._create_bucket(error)
            self._list_one(prefix)
        self._is_connected = True

    def probe_conditions(self, prefix: str) -> None:
        """Tries conditional writes and all needed rights on a test object, then deletes it."""
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
        """Uses a listing: a refused HEAD has no body with the reason."""
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
        """Waits for one of the connections; see ``_named``."""
        with self._free, self._named(verb, key) as doing:
            yield doing

    @contextmanager
    def _named(self, verb: str, key: str = "") -> Iterator[str]:
        """Translates errors raised inside; yields the operation for their messages."""
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
            except UnexpectedAnswerError as error:  # a server that answers 200 to everything would lose every upload
                raise ConfigError(doing, str(error), self._proxy_hint) from error

    def _create_bucket(self, missing: MissingBucketError) -> None:
        """Creates the bucket if a subclass can; raises ``missing`` otherwise."""
        raise ConfigError(missing.doing, missing.cause, missing.hint) from missing

    def _probe(self, key: str) -> bool:
        """Writes the object; returns whether the store supports conditions for files of any size."""
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
    """Compares arriving bytes with a file, without keeping them."""

    def __init__(self, ours: BinaryIO) -> None:
        self._ours = ours
        self._same = True

    def write(self, data: bytes, /) -> int:
        self._same = self._same and self._ours.read(len(data)) == data
        return len(data)

    def is_same(self) -> bool:
        """Whether exactly the bytes of the file arrived."""
        return self._same and not self._ours.read(1)


def _open(content: _Content) -> BinaryIO:
    return BytesIO(content) if isinstance(content, bytes) else content.open("rb")


def _require(version: Version | None, doing: str) -> Version:
    if version is None:
        raise FatalError(doing, "the object does not exist", "It was deleted meanwhile; restart")
    return version
