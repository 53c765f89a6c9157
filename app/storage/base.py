"""The interface of a store."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An entry of a listing; ``size`` in bytes, ``last_modified`` in UTC."""

    key: str
    size: int
    last_modified: datetime


@dataclass(frozen=True, slots=True)
class Content:
    """A small object, with the ``etag`` of its version."""

    body: bytes
    etag: str


class ChangedError(Exception):
    """A conditional write was refused: the stored object has another version than the expected one."""


class ObjectStore(Protocol):
    """One bucket or folder; keys may contain ``/``. Several threads may call it.

    Every method may raise ``RetryableError`` (time-outs, throttling, an outage), ``FatalError`` (rights, a deleted
    bucket) or ``ConfigError`` (no credentials, a bucket in another region).
    """

    @property
    def uri(self) -> str:
        """The store's address without a trailing slash: ``s3://bucket`` or ``file:///folder``."""

    def connect(self, prefix: str) -> None:
        """Checks that the bucket (or folder) exists and can be listed; creates a missing one if allowed.

        Rights may end at ``prefix``, the start of all keys to be written, so nothing else is listed.
        """

    def probe_conditions(self, prefix: str) -> None:
        """Finds out whether the store honours conditional writes; logs and works around one that ignores them.

        A test object, whose key begins with ``prefix``, is written and deleted.
        """

    @property
    def refuses_overwrites(self) -> bool:
        """Whether the store refuses an ``upload`` over another object; known after ``probe_conditions``."""

    def upload(self, path: Path, key: str) -> StoredObject:
        """Stores the file under the unused ``key``; a lost answer is checked by a read, as in ``write``.

        Once this returns, the object is durable; readers see all of it or nothing. A store without conditional writes
        overwrites an existing object.

        Raises:
            ChangedError: the key has another object.
        """

    def overwrite(self, key: str, body: bytes) -> None:
        """Stores a small object unconditionally."""

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Yields the objects below ``prefix`` in the order of their keys by UTF-8 bytes, page by page."""

    def find(self, key: str) -> StoredObject | None:
        """Returns the object with this key, or ``None``."""

    def read(self, key: str) -> Content | None:
        """Reads a small object; ``None`` if it does not exist."""

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """Reads up to ``length`` bytes from ``start``, a position inside the object."""

    def write(self, key: str, body: bytes, *, replaces: str | None) -> str:
        """Stores a small object only if the stored version is ``replaces`` (``None``: only if there is no object).

        After a lost answer the object is read: if it has this body, the write took place. Returns the new ETag.

        Raises:
            ChangedError: another writer was quicker.
        """

    def download(self, key: str, path: Path) -> str:
        """Copies the object into a local file, and returns the ETag of that version; removes an incomplete copy."""

    def delete(self, key: str) -> None:
        """Deletes the object; a missing one counts as deleted."""


@runtime_checkable
class ManyDeleter(Protocol):
    """A store that deletes many objects in one request."""

    def delete_many(self, keys: Sequence[str]) -> None:
        """Deletes the objects; missing ones count as deleted."""


CHUNK = 1 << 20  # bytes per read of a file
TIMEOUTS = 10.0, 60.0  # seconds: to connect, and between two chunks of an answer

_TYPES = {".parquet": "application/vnd.apache.parquet", ".json": "application/json"}


def content_type(key: str) -> str:
    return _TYPES.get(Path(key).suffix, "application/octet-stream")
