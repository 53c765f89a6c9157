"""Google Cloud Storage by its own API, through google-cloud-storage."""

import base64
import hashlib
import os
from collections.abc import Iterator
from http import HTTPMethod
from io import BytesIO
from json import JSONDecodeError
from pathlib import Path
from typing import BinaryIO

from google.api_core.exceptions import (
    GoogleAPICallError,
    NotFound,
    PreconditionFailed,
    RequestRangeNotSatisfiable,
)
from google.cloud.storage import Blob

from app.errors import ConfigError, FatalError, RetryableError
from app.storage.base import ChangedError, Document, StoredObject, content_type
from app.storage.conditional import WHATEVER_IS_THERE, ConditionalWriter, Replaces, Seen
from app.storage.gcs.bucket import GONE_HINT, GcsBucket
from app.storage.gcs.client import LIMITS, Limits
from app.storage.gcs.errors import PROXY_HINT, translated
from app.storage.gcs.target import GcsTarget
from app.storage.os_errors import os_translated
from app.storage.probe import own_object

# Bytes of a file in memory at once, and in one request: what is larger goes as a resumable upload, which nobody sees
# before its last piece has arrived. The library sends up to 8 MiB in one request in any case.
_PIECE = 8 << 20
_ABSENT = 0  # what Google calls the generation of an object that is not there


class GcsStore:
    """One bucket. A version of an object is its generation, a number that Google gives it.

    ``STORAGE_EMULATOR_HOST`` leads to a server for tests, as it does for every program with Google's library.

    Args:
        target: the bucket, and the access to it.
        max_workers: how many threads will upload at once; sizes the connection pool.
        limits: time-outs and tries.
    """

    def __init__(self, target: GcsTarget, *, max_workers: int, limits: Limits = LIMITS) -> None:
        self._target = target
        self._bucket = GcsBucket(target, max_workers=max_workers, limits=limits)
        self._documents: ConditionalWriter[bytes, str] = ConditionalWriter(self.uri, self._put, self._look)
        self._files = ConditionalWriter(self.uri, self._put_file, self._look_at_file)

    @property
    def uri(self) -> str:
        """``gs://bucket``."""
        return self._target.uri

    def connect(self, prefix: str) -> None:
        """Prove that the bucket is there and can be listed below the prefix; create it when missing and allowed.

        The bucket itself is not asked for: that takes a right which writing to it does not need.
        """
        doing = f"connecting to {self.uri}"
        with translated(doing):
            try:
                self._bucket.try_listing(prefix, doing)
            except NotFound as error:
                if not self._target.may_create:
                    hint = "Check STORAGE_URL; create the bucket, or set CREATE_BUCKET=true"
                    raise ConfigError(doing, "there is no such bucket", hint) from error
                self._bucket.create()
                self._bucket.try_listing(prefix, doing)

    def probe_conditions(self, prefix: str) -> None:
        """Try conditional writes on an object of our own, and delete it again."""
        with own_object(prefix, self.delete) as key:
            self._files.rely_on_conditions(self._documents.probe(key, b"{}", b'{"second": true}'))

    @property
    def refuses_overwrites(self) -> bool:
        """Whether the store knows conditional writes; Google does."""
        return self._files.has_conditions

    def upload(self, path: Path, key: str) -> StoredObject:
        """Store the file under ``key``, where nothing is: nobody sees a part of it."""
        return self._files.create(key, path)

    def overwrite(self, key: str, body: bytes) -> None:
        """Store a small object in place of whatever is there."""
        self._put(key, body, WHATEVER_IS_THERE)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Yield the objects under ``prefix`` in the order of their keys (UTF-8 bytes), 1,000 per request."""
        doing = f"listing {self.uri}/{prefix}"
        pages = self._bucket.pages(prefix, doing)
        while True:
            with translated(doing):
                try:
                    page = next(pages, None)
                except NotFound as error:
                    raise FatalError(doing, "there is no such bucket", GONE_HINT) from error
            if page is None:
                return
            yield from map(_stored, page)

    def read(self, key: str) -> Document | None:
        """Read a small object, or ``None`` when there is none."""
        doing = f"reading {self.uri}/{key}"
        blob = self._bucket.blob(key)
        with translated(doing):
            try:
                body: bytes = blob.download_as_bytes(**self._bucket.asked)
            except NotFound as error:
                self._bucket.require(key, doing, error)
                return None
        return Document(body, _generation(blob, doing))

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """Read up to ``length`` bytes from ``start`` on; fewer, or none, where the object ends."""
        if not length:  # a range of no bytes cannot be asked for
            return b""
        doing = f"reading {self.uri}/{key}"
        blob = self._bucket.blob(key)
        with translated(doing):
            try:
                body: bytes = blob.download_as_bytes(start=start, end=start + length - 1, **self._bucket.asked)
            except RequestRangeNotSatisfiable:
                return b""
        _generation(blob, doing)
        return body

    def write(self, key: str, body: bytes, *, replaces: str | None) -> str:
        """Store a small object in place of the version ``replaces``; a lost answer is found out by reading."""
        return self._documents.write(key, body, replaces)

    def replace(self, path: Path, key: str, *, replaces: str) -> StoredObject:
        """Put the file in place of the version ``replaces``; a lost answer is found out by its checksum."""
        return self._files.write(key, path, replaces)

    def download(self, key: str, path: Path) -> str:
        """Copy the object into a local file; nothing is left of one that does not arrive whole."""
        doing = f"downloading {self.uri}/{key}"
        blob = self._bucket.blob(key)
        with os_translated(doing), path.open("wb") as file:
            try:
                with translated(doing):
                    blob.download_to_file(file, **self._bucket.asked)
                return _generation(blob, doing)
            except BaseException:
                path.unlink(missing_ok=True)
                raise

    def delete(self, key: str) -> None:
        """Delete the object; one that is not there counts as deleted."""
        doing = f"deleting {self.uri}/{key}"
        with translated(doing):
            try:
                self._bucket.blob(key).delete(**self._bucket.asked)
            except NotFound as error:
                self._bucket.require(key, doing, error)

    # --- conditional writes -----------------------------------------------------------------------------------------

    def _put(self, key: str, body: bytes, replaces: Replaces) -> str:
        """Store a small object and return its generation."""
        doing = f"writing {self.uri}/{key}"
        return _generation(self._send(doing, key, BytesIO(body), len(body), replaces), doing)

    def _look(self, key: str, body: bytes) -> Seen[str] | None:
        found = self.read(key)
        return Seen(found.etag, found.body == body, found.etag) if found else None

    def _put_file(self, key: str, path: Path, replaces: Replaces) -> StoredObject:
        doing = f"uploading {self.uri}/{key}"
        with os_translated(doing), path.open("rb") as file:
            return _stored(self._send(doing, key, file, os.fstat(file.fileno()).st_size, replaces))

    def _look_at_file(self, key: str, path: Path) -> Seen[StoredObject] | None:
        found = self._attributes(key)
        if found is None:
            return None
        doing = f"reading {self.uri}/{key}"
        with os_translated(doing):
            return Seen(_generation(found, doing), found.md5_hash == _md5(path), _stored(found))

    def _send(self, doing: str, key: str, body: BinaryIO, size: int, replaces: Replaces) -> Blob:
        """Store an object in place of that version, its checksum compared; the answer is sure to have a generation."""
        condition = {} if replaces is WHATEVER_IS_THERE else {"if_generation_match": self._generation_of(replaces, key)}
        given = condition | self._bucket.asked
        blob = self._bucket.blob(key, chunk_size=_PIECE)
        with translated(doing):
            try:
                blob.upload_from_file(body, size=size, content_type=content_type(key), **given)
            except PreconditionFailed as error:
                raise self._changed(key) from error
            except ValueError as error:  # the store kept a part of a piece, and the library does not go back
                if isinstance(error, JSONDecodeError):
                    raise
                raise RetryableError(doing, "the store has not kept all that was sent") from error
            except NotFound as error:
                if _is_of_a_session(error):
                    raise RetryableError(doing, "the store has forgotten the upload's beginning") from error
                raise FatalError(doing, "there is no such bucket", GONE_HINT) from error
        _generation(blob, doing)
        return blob

    def _generation_of(self, replaces: str | None, key: str) -> int:
        if replaces is None:
            return _ABSENT
        if not replaces.isdecimal() or int(replaces) == _ABSENT:  # no version has such a name
            raise self._changed(key)
        return int(replaces)

    def _changed(self, key: str) -> ChangedError:
        return ChangedError(f"{self.uri}/{key} is not the version that was to be replaced")

    # --- inside -----------------------------------------------------------------------------------------------------

    def _attributes(self, key: str) -> Blob | None:
        """What the store knows of an object; ``None`` where there is none."""
        doing = f"reading {self.uri}/{key}"
        blob = self._bucket.blob(key)
        with translated(doing):
            try:
                blob.reload(**self._bucket.asked)
            except NotFound as error:
                self._bucket.require(key, doing, error)
                return None
        return blob


def _is_of_a_session(error: GoogleAPICallError) -> bool:
    """Whether what was not found is a resumable upload, which only its pieces are sent to by PUT."""
    return error.response is not None and error.response.request.method == HTTPMethod.PUT


def _generation(blob: Blob, doing: str) -> str:
    """The object's version. Google always names it; a proxy's page with status 200 is no object."""
    if blob.generation is None:
        raise RetryableError(doing, "the answer has no generation, so it is not that of a store", PROXY_HINT)
    return str(blob.generation)


def _stored(blob: Blob) -> StoredObject:
    return StoredObject(blob.name, blob.size, blob.time_created)


def _md5(path: Path) -> str:
    """The file's checksum as Google shows it."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False))
    return base64.b64encode(digest.digest()).decode()
