"""Refuses a table that is not there, which is most often a misspelled one."""

from app.errors import ConfigError
from app.storage.base import ObjectStore
from app.table.layout import dead_letter_root
from app.table.location import TableLocation


def require_table(store: ObjectStore, location: TableLocation) -> None:
    """Check that the table has an object: a file, a journal, or a dead letter."""
    folders = (location.root, dead_letter_root(location.root))
    if any(next(store.list(f"{folder}/"), None) for folder in folders):
        return
    hint = "Check TABLE_NAME (without it, input names the table), S3_PREFIX and the store"
    raise ConfigError("looking for the table", f"there is nothing in {location.uri}", hint)
