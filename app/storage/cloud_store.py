"""A bucket behind an SDK: everything that S3, Google Cloud Storage and Azure do alike."""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, Protocol

from app.errors import ConfigError, FatalError, RetryableError
from app.storage.base import Document, StoredObject
from app.storage.conditional import WHATEVER_IS_THERE, ConditionalWriter, Replaces, Seen, Version
from app.storage.os_errors import os_translated
from app.storage.probe import own_object

_Content = bytes | Path  # of a small object, or of a file


class UnexpectedAnswerError(Exception):
    """An answer that no sound store gives, such as the web page of a proxy with status 200."""


class MissingBucketError(FatalError):
    """The bucket is not there."""


class Sink(Protocol):
    """Takes the bytes of an object as they arrive."""

    def write(self, data: bytes, /) -> int:
        """Take all of them, and return how many they are."""
        ...


class CloudStore(ABC):
    """One bucket. A subclass maps the calls of an SDK and its errors.

    Args:
        uri: the bucket's address.
        proxy_hint: what to check where somebody else than the store answers.
    """

    def __init__(self, uri: str, proxy_hint: str) -> None:
        self._uri = uri
        self._proxy_hint = proxy_hint
        self._documents: ConditionalWriter[_Content] = ConditionalWriter(uri, partial(self._put, "writing"), self._look)
        self._files: ConditionalWriter[_Content] = ConditionalWriter(uri, partial(self._put, "uploading"), self._look)

    # --- the calls of an SDK -----------------------------------------------------------------------------------------

    @abstractmethod
    def _translated(self, doing: str, key: str, /) -> AbstractContextManager[None]:
        """Raise errors of the SDK from inside as ``ConnectorError``; ``MissingBucketError`` where that is the cause."""

    @abstractmethod
    def _pages(self, prefix: str, size: int | None = None) -> Iterator[list[StoredObject]]:
        """List page by page, in the order of keys; ``size`` is how many objects a page has at most."""

    @abstractmethod
    def _fetch(self, key: str, into: Sink, start: int = 0, length: int | None = None) -> Version | None:
        """Read an object, or a part of it, piece by piece; ``None`` where there is none."""

    @abstractmethod
    def _send(self, key: str, body: BinaryIO, size: int, replaces: Replaces) -> Version:
        """Store an object in place of that version; readers see all of it or nothing.

        Raises:
            ChangedError: something else is there.
            NoConditionsError: the store answers that it does not know conditions.
        """

    @abstractmethod
    def _remove(self, key: str) -> None:
        """Delete an object; one that is not there counts as deleted."""

    @property
    def _account(self) -> str:
        """Where the bucket is, for messages, if its address does not tell."""
        return ""

    # --- as ``ObjectStore`` -----------------------------------------------------------------------------------------

    @property
    def uri(self) -> str:
        """``s3://bucket``, ``gs://bucket`` or ``az://container``."""
        return self._uri

    def connect(self, prefix: str) -> None:
        """Prove that the bucket is there and can be listed below the prefix.

        A listing is asked for rather than the bucket itself: it takes no further right, and refusals say why.
        """
        try:
            self._list_one(prefix)
        except MissingBucketError as error:
            self._create_bucket(error)
            self._list_one(prefix)

    def probe_conditions(self, prefix: str) -> None:
        """Try conditional writes on an object of our own, and all rights that are needed; then delete it again."""
        with own_object(prefix, self.delete) as key:
            self._files.rely_on_conditions(self._probe(key))
            self.read(key)

    @property
    def refuses_overwrites(self) -> bool:
        """Whether the store knows conditional writes."""
        return self._files.has_conditions

    def upload(self, path: Path, key: str) -> StoredObject:
        """Store the file under ``key``, where nothing is; readers see the whole object or none."""
        version = self._files.create(key, path)
        return StoredObject(key, path.stat().st_size, version.last_modified)

    def replace(self, path: Path, key: str, *, replaces: str) -> StoredObject:
        """Store the file in place of the version ``replaces``; a lost answer is found out by reading."""
        version = self._files.write(key, path, replaces)
        return StoredObject(key, path.stat().st_size, version.last_modified)

    def overwrite(self, key: str, body: bytes) -> None:
        """Store a small object in place of whatever is there."""
        self._put("writing", key, body, WHATEVER_IS_THERE)

    def write(self, key: str, body: bytes, *, replaces: str | None) -> str:
        """Store a small object in place of the version ``replaces``; a lost answer is found out by reading."""
        return self._documents.write(key, body, replaces).etag

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Yield the objects under ``prefix`` in the order of their keys (UTF-8 bytes), page by page."""
        pages = self._pages(prefix)
        while True:
            with self._doing("listing", prefix):
                page = next(pages, None)
            if page is None:
                return
            yield from page

    def read(self, key: str) -> Document | None:
        """Read a small object, or ``None`` when there is none."""
        body = BytesIO()
        with self._doing("reading", key):
            found = self._fetch(key, body)
        return Document(body.getvalue(), found.etag) if found else None

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """Read up to ``length`` bytes from ``start``, which lies inside the object; fewer where the object ends."""
        if not length:  # a range of no bytes cannot be asked for
            return b""
        body = BytesIO()
        with self._doing("reading", key) as doing:
            _require(self._fetch(key, body, start, length), doing)
        return body.getvalue()

    def download(self, key: str, path: Path) -> str:
        """Copy the object into a local file; nothing is left of one that does not arrive whole."""
        with self._doing("downloading", key) as doing:
            try:
                with path.open("wb") as file:
                    return _require(self._fetch(key, file), doing).etag
            except BaseException:
                path.unlink(missing_ok=True)
                raise

    def delete(self, key: str) -> None:
        """Delete the object; one that is not there counts as deleted."""
        with self._doing("deleting", key):
            self._remove(key)

    # --- inside -----------------------------------------------------------------------------------------------------

    @contextmanager
    def _doing(self, verb: str, key: str = "") -> Iterator[str]:
        """Translate errors from inside; yields how they say what was being done."""
        doing = f"{verb} {self._uri}{f'/{key}' if key else ''}{self._account}"
        try:
            with os_translated(doing), self._translated(doing, key):
                yield doing
        except UnexpectedAnswerError as error:
            raise RetryableError(doing, str(error), self._proxy_hint) from error

    def _list_one(self, prefix: str) -> None:
        with self._doing("connecting to") as doing:
            try:
                next(self._pages(prefix, size=1), None)
            except UnexpectedAnswerError as error:  # who answers all with 200 loses every upload
                raise ConfigError(doing, str(error), self._proxy_hint) from error

    def _create_bucket(self, missing: MissingBucketError) -> None:
        """Create the bucket; refuses to, unless a subclass can."""
        raise ConfigError(missing.doing, missing.cause, missing.hint) from missing

    def _probe(self, key: str) -> bool:
        """Leave an object there; returns whether conditions hold for files of any size."""
        return self._documents.probe(key, b"{}", b'{"second": true}')

    def _put(self, verb: str, key: str, content: _Content, replaces: Replaces) -> Version:
        with self._doing(verb, key), _opened(content) as body:
            size = body.seek(0, os.SEEK_END)
            body.seek(0)
            return self._send(key, body, size, replaces)

    def _look(self, key: str, content: _Content) -> Seen | None:
        with self._doing("reading", key), _opened(content) as ours:
            comparison = _Comparison(ours)
            found = self._fetch(key, comparison)
            return Seen(found, comparison.is_same()) if found else None


class _Comparison:
    """Compares the bytes that arrive with those of a file; keeps none of them."""

    def __init__(self, ours: BinaryIO) -> None:
        self._ours = ours
        self._same = True

    def write(self, data: bytes, /) -> int:
        self._same = self._same and self._ours.read(len(data)) == data
        return len(data)

    def is_same(self) -> bool:
        """Whether all bytes came that the file has, and no others."""
        return self._same and not self._ours.read(1)


def _opened(content: _Content) -> BinaryIO:
    return BytesIO(content) if isinstance(content, bytes) else content.open("rb")


def _require(found: Version | None, doing: str) -> Version:
    if found is None:
        raise FatalError(doing, "there is no such object", "It was deleted meanwhile; restart")
    return found
