"""A real folder as a store that now and then says no."""

import threading
from collections.abc import Callable
from pathlib import Path

from app.errors import ConnectorError
from app.storage.base import StoredObject
from app.storage.local import LocalStore


class MoodyStore(LocalStore):
    """Asks ``refuse`` before each upload: the error it gives is raised, ``None`` lets the upload pass."""

    def __init__(self, folder: Path, refuse: Callable[[str], ConnectorError | None] = lambda _: None) -> None:
        super().__init__(folder)
        self.refuse = refuse
        self.tried: list[str] = []
        self._lock = threading.Lock()

    def upload(self, path: Path, key: str) -> StoredObject:
        with self._lock:
            self.tried.append(key)
        error = self.refuse(key)
        if error is not None:
            raise error
        return super().upload(path, key)
