"""A real folder as a store that remembers the journals written into it, and whose answers get lost on demand."""

import threading
from collections.abc import Callable
from pathlib import Path

from app.errors import ConnectorError, RetryableError
from app.journal.entry import is_log
from app.journal.journal import CLAIM, PartitionClaim
from app.journal.log import AssignmentLog, log_form
from app.storage.base import Content
from tests.fakes.moody_store import MoodyStore, raise_if


class JournalStore(MoodyStore):
    """A folder.

    ``bodies`` has all versions of each small object in their order, ``deleted`` keys. ``lost_answers`` of the next
    writes get lost after they are applied; so does that of the write ``lost_write``, counted from now on. ``on_small``
    is called with "read" or "write" and the key before each, and ``refuse_removal`` gives the error of a deletion or
    of a placeholder.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.bodies: dict[str, list[bytes]] = {}
        self._in_order = threading.Lock()
        self.deleted: list[str] = []
        self.lost_answers = 0
        self.lost_write = 0
        self.on_small: Callable[[str, str], None] = lambda *_: None
        self.on_answer: Callable[[], None] = lambda: None
        self.refuse_removal: Callable[[str], ConnectorError | None] = lambda _: None

    def versions(self, key: str) -> list[PartitionClaim] | list[AssignmentLog]:
        bodies = self.bodies.get(key, [])
        return (
            [log_form("data/t").parse(body) for body in bodies]
            if is_log(key)
            else [CLAIM.parse(body) for body in bodies]
        )

    def read(self, key: str) -> Content | None:
        self.on_small("read", key)
        found = super().read(key)
        self.on_answer()
        return found

    def write(self, key: str, body: bytes, *, replaces: str | None) -> str:
        self.on_small("write", key)
        with self._in_order:
            etag = super().write(key, body, replaces=replaces)
            versions = self.bodies.setdefault(key, [])
            if not versions or versions[-1] != body:  # else it repeats a write whose answer was lost
                versions.append(body)
        self.on_answer()
        self.lost_write -= 1
        if self.lost_answers or self.lost_write == 0:
            self.lost_answers = max(0, self.lost_answers - 1)
            raise RetryableError(f"writing {key}", "the connection was reset")
        return etag

    def delete(self, key: str) -> None:
        raise_if(self.refuse_removal(key))
        self.deleted.append(key)
        super().delete(key)

    def overwrite(self, key: str, body: bytes) -> None:
        raise_if(self.refuse_removal(key))
        super().overwrite(key, body)
