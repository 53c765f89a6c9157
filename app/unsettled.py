"""Which of a table's objects are not settled: on their way into it, or undone and perhaps not deleted yet."""

from dataclasses import dataclass

from app.dead_letter import object_roots
from app.journal_entry import journal_folder
from app.journal_object import read_entry
from app.storage.base import ObjectStore


@dataclass(frozen=True, slots=True)
class Unsettled:
    """Keys of objects: ``pending`` ones may become part of the table, ``revoked`` ones never do."""

    pending: frozenset[str]
    revoked: frozenset[str]


def unsettled(store: ObjectStore, table_root: str) -> Unsettled:
    """Read all journals of a table, of whatever consumer group.

    Raises:
        ConnectorError: the store's; ``FatalError`` for a journal that cannot be understood.
    """
    folder = journal_folder(table_root)
    roots = object_roots(table_root)
    pending: set[str] = set()
    revoked: set[str] = set()
    for found in store.list(folder):
        below = found.key.removeprefix(folder)
        if "/" not in below or not below.endswith(".json"):  # the table's schema, a probe
            continue
        read = read_entry(store, found.key, roots)
        if read is None:
            continue  # the table is being deleted
        entry, _ = read
        pending.update(entry.objects)
        revoked.update(item.key for item in entry.revoked)
    return Unsettled(frozenset(pending), frozenset(revoked))
