"""Reads the journals of a table: which objects are pending, and which were rolled back."""

import logging
from dataclasses import dataclass
from urllib.parse import unquote

from app.journal.entry import group_folder, is_log
from app.journal.log import log_form
from app.storage.base import ObjectStore
from app.storage.document import Document
from app.table.layout import journal_folder

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Survey:
    """Keys of objects: ``pending`` ones may become part of the table, ``rolled_back`` ones never do."""

    pending: frozenset[str]
    rolled_back: frozenset[str]

    @property
    def left_out(self) -> frozenset[str]:
        """Objects that do not belong to the table, or not yet. Call ``survey`` after the listing, not before."""
        return self.pending | self.rolled_back


def survey(store: ObjectStore, table_root: str) -> Survey:
    """Read all journals of a table, of all consumer groups."""
    folder = journal_folder(table_root)
    form = log_form(table_root)
    pending: set[str] = set()
    rolled_back: set[str] = set()
    for found in store.list(folder):
        log = Document(store, found.key, form).read() if is_log(found.key) else None
        if log is not None:
            pending.update(log.objects)
            rolled_back.update(item.key for item in log.revoked)
    return Survey(frozenset(pending), frozenset(rolled_back))


def warn_of_other_groups(store: ObjectStore, table_root: str, group: str) -> None:
    """Warn of journals of other consumer groups in the table: each group writes every row once."""
    root, own = journal_folder(table_root), group_folder(table_root, group)
    others = {
        key.removeprefix(root).split("/")[0]
        for key in (found.key for found in store.list(root))
        if key.endswith(".json") and not key.startswith(own) and "/" in key.removeprefix(root)
    }
    if others:
        logger.warning(
            "the table was written by other consumer groups too (%s): rows of topics that both consume are in it once "
            "for each group. If CONSUMER_GROUP was changed, records that the former group wrote come again; to avoid "
            "that, name the former group",
            ", ".join(sorted(unquote(name) for name in others)),
        )
