"""The same lake on every kind of store."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.journal.entry import is_log
from app.storage.base import ObjectStore, StoredObject
from tests.e2e.lake import Lake, copy


@dataclass(frozen=True)
class Home:
    """A place for tables: ``settings`` lead the connector there, and ``store`` is to look into it."""

    settings: dict[str, str]
    store: ObjectStore

    def objects(self, prefix: str) -> list[StoredObject]:
        return list(self.store.list(prefix))

    def logs(self, table: str) -> Iterator[dict[str, Any]]:
        for found in self.store.list(f"{table}/_journal/"):
            document = self.store.read(found.key) if is_log(found.key) else None
            if document is not None:
                yield json.loads(document.body)

    def is_at_work(self, table: str) -> bool:
        return any(log["state"] == "pending" for log in self.logs(table))

    def mirror(self, table: str, folder: Path) -> Lake:
        """Bring the table's files into a folder, as a reader that lists the store finds them."""
        return copy(self.store, f"{table}/", folder)
