"""The interface of a store, and what all stores have in common."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object as the store lists it; ``size`` in bytes, ``last_modified`` with its zone (UTC)."""

    key: str
    size: int
    last_modified: datetime


@dataclass(frozen=True, slots=True)
class Document:
    """A small object read whole; ``etag`` names this very version of it."""

    body: bytes
    etag: str


class ChangedError(Exception):
    """A conditional write was refused: the object is not the version that it was to replace."""


class ObjectStore(Protocol):
    """A flat space of keys with ``/`` in them.

    Every method may raise ``RetryableError`` (time-outs, throttling, an outage), ``FatalError`` (rights, a bucket that
    is gone) or ``ConfigError`` (no credentials, a bucket in another region). All are safe to call from several threads.
    """

    @property
    def uri(self) -> str:
        """The store's address without a trailing slash: ``s3://bucket`` or ``file:///folder``."""
        ...

    def connect(self, prefix: str) -> None:
        """Prove that the bucket (or folder) is there and can be listed; create it when missing and allowed.

        Args:
            prefix: what keys start with that will be written. Rights may end there, so nothing else is listed.
        """
        ...

    def probe_conditions(self, prefix: str) -> None:
        """Find out whether conditional writes are honoured; a store that ignores them is logged, and worked around.

        Args:
            prefix: what the key of the object starts with that is written and deleted for it.
        """
        ...

    @property
    def refuses_overwrites(self) -> bool:
        """Whether ``upload`` is refused where another object is; known after ``probe_conditions``."""
        ...

    def upload(self, path: Path, key: str) -> StoredObject:
        """Store the file under ``key``, where nothing is; a lost answer is read back, as by ``write``.

        Once this returns, the object is durable; readers see all of it or nothing. A store that does not refuse
        overwrites puts the file in place of what is there.

        Raises:
            ChangedError: another object is there.
        """
        ...

    def overwrite(self, key: str, body: bytes) -> None:
        """Store a small object in place of whatever is there."""
        ...

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Yield the objects whose key starts with ``prefix``, in the order of their keys, page by page."""
        ...

    def read(self, key: str) -> Document | None:
        """Read a small object, or ``None`` when there is none."""
        ...

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """Read up to ``length`` bytes from ``start``, which lies inside the object; fewer where the object ends."""
        ...

    def write(self, key: str, body: bytes, *, replaces: str | None) -> str:
        """Store a small object only if it still is the version ``replaces`` (``None``: only if there is none).

        An answer that was lost is read back: when the object holds this body, it was written.

        Returns:
            The new version's ETag.

        Raises:
            ChangedError: another writer was quicker.
        """
        ...

    def download(self, key: str, path: Path) -> str:
        """Copy the object into a local file and return the ETag of the version that was copied."""
        ...

    def replace(self, path: Path, key: str, *, replaces: str) -> StoredObject:
        """Store the file under ``key`` only if the object there still is the version ``replaces``.

        Readers see the old object or the new one, whole. A lost answer is read back, as by ``write``.

        Raises:
            ChangedError: the object was changed or deleted meanwhile.
        """
        ...

    def delete(self, key: str) -> None:
        """Delete the object; one that is not there counts as deleted."""
        ...


@runtime_checkable
class Finder(Protocol):
    """A store that finds one object otherwise than by a listing."""

    def find(self, key: str) -> StoredObject | None:
        """The object with this key, or ``None``."""
        ...


def find(store: ObjectStore, key: str) -> StoredObject | None:
    """The object with this key, or ``None``. A listing is asked: refusals to a HEAD have no body that says why."""
    if isinstance(store, Finder):
        return store.find(key)
    return next((found for found in store.list(key) if found.key == key), None)


CHUNK = 1 << 20  # bytes of a file in memory at once

_TYPES = {".parquet": "application/vnd.apache.parquet", ".json": "application/json"}


def content_type(key: str) -> str:
    """The ``Content-Type`` to store an object with."""
    return _TYPES.get(Path(key).suffix, "application/octet-stream")
