"""A real folder as a store that now and then says no."""

import threading
from collections.abc import Callable
from pathlib import Path

from app.errors import ConnectorError
from app.storage.base import Content, StoredObject
from app.storage.local.store import LocalStore


class MoodyStore(LocalStore):
    """Asks ``refuse`` before each upload: the error it gives is raised, ``None`` lets the upload pass.

    ``refuse_small`` is asked in the same way before a small object is read or written.
    """

    def __init__(self, folder: Path, refuse: Callable[[str], ConnectorError | None] = lambda _: None) -> None:
        super().__init__(folder)
        self.refuse = refuse
        self.refuse_small: Callable[[str], ConnectorError | None] = lambda _: None
        self.tried: list[str] = []
        self._lock = threading.Lock()

    def upload(self, path: Path, key: str) -> StoredObject:
        with self._lock:
            self.tried.append(key)
        raise_if(self.refuse(key))
        return super().upload(path, key)

    def read(self, key: str) -> Content | None:
        raise_if(self.refuse_small(key))
        return super().read(key)

    def write(self, key: str, body: bytes, *, replaces: str | None) -> str:
        raise_if(self.refuse_small(key))
        return super().write(key, body, replaces=replaces)


def raise_if(error: ConnectorError | None) -> None:
    if error is not None:
        raise error
