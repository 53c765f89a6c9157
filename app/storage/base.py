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
    """The store refused a conditional write: the stored version is not the expected one."""


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

        The user's rights may be limited to ``prefix``, the start of all keys to be written. Only this is listed.
        """

    def probe_conditions(self, prefix: str) -> None:
        """Finds out whether the store supports conditional writes; if not, logs it and uses a workaround.

        It writes and deletes a test object, whose key begins with ``prefix``.
        """

    @property
    def refuses_overwrites(self) -> bool:
        """Whether the store refuses an ``upload`` over another object; known after ``probe_conditions``."""

    def upload(self, path: Path, key: str) -> StoredObject:
        """Stores the file under the unused ``key``; after a lost answer, it reads the object, as ``write`` does.

        Once this returns, the object is durable. Readers see the complete object or none. A store without conditional
        writes overwrites an existing object.

        Raises:
            ChangedError: Another object has this key.
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

        After a lost answer, it reads the object: if it has this body, the write succeeded. Returns the new ETag.

        Raises:
            ChangedError: Another writer was quicker.
        """

    def download(self, key: str, path: Path) -> str:
        """Copies the object into a local file, and returns the ETag of that version; removes an incomplete copy."""

    def delete(self, key: str) -> None:
        """Deletes the object; a missing object counts as deleted."""


@runtime_checkable
class ManyDeleter(Protocol):
    """A store that deletes many objects in one request."""

    def delete_many(self, keys: Sequence[str]) -> None:
        """Deletes the objects; missing objects count as deleted."""


CHUNK = 1 << 20  # bytes per read of a file
TIMEOUTS = 10.0, 60.0  # seconds: to connect, and between two chunks of an answer

_TYPES = {".parquet": "application/vnd.apache.parquet", ".json": "application/json"}


def content_type(key: str) -> str:
    return _TYPES.get(Path(key).suffix, "application/octet-stream")
