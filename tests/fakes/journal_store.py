"""A real folder as a store that remembers the journals written into it, and whose answers get lost on demand."""

from collections.abc import Callable
from pathlib import Path

from app.errors import ConnectorError, RetryableError
from app.journal.entry import JournalEntry, parse
from app.storage.base import Document
from tests.fakes.moody_store import MoodyStore


class JournalStore(MoodyStore):
    """A folder.

    ``bodies`` has all versions of each small object in their order, ``calls`` what was asked of it, ``deleted`` keys.
    ``lost_answers`` of the next writes get lost after they are applied. ``on_small`` is called with "read" or "write"
    and the key before each, and ``refuse_delete`` gives the error of a deletion.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.bodies: dict[str, list[bytes]] = {}
        self.deleted: list[str] = []
        self.lost_answers = 0
        self.on_small: Callable[[str, str], None] = lambda *_: None
        self.on_answer: Callable[[], None] = lambda: None
        self.refuse_delete: Callable[[str], ConnectorError | None] = lambda _: None

    def entries(self, key: str) -> list[JournalEntry]:
        """All versions of a journal."""
        return [parse(body, ("",)) for body in self.bodies.get(key, [])]

    def read(self, key: str) -> Document | None:
        self.on_small("read", key)
        found = super().read(key)
        self.on_answer()
        return found

    def write(self, key: str, body: bytes, *, replaces: str | None) -> str:
        self.on_small("write", key)
        etag = super().write(key, body, replaces=replaces)
        self.on_answer()
        versions = self.bodies.setdefault(key, [])
        if not versions or versions[-1] != body:  # else it repeats a write whose answer was lost
            versions.append(body)
        if self.lost_answers:
            self.lost_answers -= 1
            raise RetryableError(f"writing {key}", "the connection was reset")
        return etag

    def delete(self, key: str) -> None:
        error = self.refuse_delete(key)
        if error is not None:
            raise error
        self.deleted.append(key)
        super().delete(key)
