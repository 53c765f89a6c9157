"""What the pipeline asks of a store."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object as the store lists it; ``size`` in bytes, ``last_modified`` with its zone (UTC)."""

    key: str
    size: int
    last_modified: datetime


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

    def upload(self, path: Path, key: str) -> StoredObject:
        """Store the file under ``key``; once this returns, it is durable and readers see all of it or nothing."""
        ...

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Yield the objects whose key starts with ``prefix``, in the order of their keys, page by page."""
        ...
