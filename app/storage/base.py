"""The interface of a store."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An entry of a listing. ``size`` is in bytes, ``last_modified`` in UTC."""

    key: str
    size: int
    last_modified: datetime


@dataclass(frozen=True, slots=True)
class Content:
    """The body of a small object, and the ``etag`` of the object's version."""

    body: bytes
    etag: str


class ChangedError(Exception):
    """The store refused a conditional write, because the stored version is not the expected version."""


class ObjectStore(Protocol):
    """One bucket or folder. Object keys may contain ``/``. Several threads may call the methods.

    Every method may raise ``RetryableError`` (time-outs, throttling, an outage), ``FatalError`` (rights, a deleted
    bucket) or ``ConfigError`` (no credentials, a bucket in another region).
    """

    @property
    def uri(self) -> str:
        """The address of the store without a trailing slash: ``s3://bucket`` or ``file:///folder``."""

    def connect(self, prefix: str) -> None:
        """Checks that the bucket or folder exists and can be listed. Creates a missing bucket if this is allowed.

        All keys to be written begin with ``prefix``. Only this prefix is listed, because rights may be limited to it.
        """

    def probe_conditions(self, prefix: str) -> None:
        """Finds out whether the store supports conditional writes. If not, logs this and uses a workaround.

        The method writes and deletes a test object. The test object's key begins with ``prefix``.
        """

    @property
    def refuses_overwrites(self) -> bool:
        """Whether the store refuses an ``upload`` over an existing object. Call ``probe_conditions`` first."""

    def upload(self, path: Path, key: str) -> StoredObject:
        """Stores the file under the unused ``key``. After a lost answer, reads the object like ``write``.

        After the method returns, the object is durable. Readers see the complete object or no object. A store without
        conditional writes overwrites an existing object.

        Raises:
            ChangedError: A different object has this key.
        """

    def overwrite(self, key: str, body: bytes) -> None:
        """Stores a small object unconditionally."""

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Yields the objects below ``prefix``, page by page, in the order of their keys' UTF-8 bytes."""

    def find(self, key: str) -> StoredObject | None:
        """Returns the object with this key, or ``None``."""

    def read(self, key: str) -> Content | None:
        """Returns a small object; ``None`` if the object does not exist."""

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """Returns up to ``length`` bytes of the object. ``start`` is the position of the first byte."""

    def write(self, key: str, body: bytes, *, replaces: str | None) -> str:
        """Stores a small object if the stored version is ``replaces`` (``None``: if no object has this key).

        After a lost answer, reads the object. If the object has this body, the write succeeded. Returns the new ETag.

        Raises:
            ChangedError: Another writer has changed the object.
        """

    def download(self, key: str, path: Path) -> str:
        """Copies the object into a local file. Returns the copied version's ETag. Removes an incomplete copy."""

    def delete(self, key: str) -> None:
        """Deletes the object. If the object is missing, the call succeeds."""


@runtime_checkable
class ManyDeleter(Protocol):
    """A store that deletes many objects in one request."""

    def delete_many(self, keys: Sequence[str]) -> None:
        """Deletes the objects. If objects are missing, the call succeeds."""


CHUNK = 1 << 20  # bytes per read from a file
TIMEOUTS = 10.0, 60.0  # seconds to connect, and seconds between two chunks of an answer

_TYPES = {".parquet": "application/vnd.apache.parquet", ".json": "application/json"}


def content_type(key: str) -> str:
    return _TYPES.get(Path(key).suffix, "application/octet-stream")
