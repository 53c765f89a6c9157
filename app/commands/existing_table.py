"""Refuses a table that is not there, which is most often a misspelled one."""

import difflib
from itertools import islice
from typing import Final

from app.errors import ConfigError, FatalError
from app.storage.base import ObjectStore
from app.table.layout import dead_letter_root
from app.table.location import TableLocation

_LOOKED_AT: Final = 20_000  # objects: one listing of some seconds, also beside a table of millions of files
_SHOWN: Final = 5


def require_table(store: ObjectStore, location: TableLocation) -> None:
    """Check that the table has an object: a file, a journal, or a dead letter.

    Raises:
        ConfigError: it has none. The error names the tables that lie beside it, similar ones first.
        ConnectorError: of the store.
    """
    folders = (location.root, dead_letter_root(location.root))
    if any(next(store.list(f"{folder}/"), None) for folder in folders):
        return
    hint = "Check TABLE_NAME (without it, input names the table), S3_PREFIX and the store"
    raise ConfigError("looking for the table", f"there is nothing in {location.uri}; {_beside(store, location)}", hint)


def _beside(store: ObjectStore, location: TableLocation) -> str:
    """What else there is, in words."""
    parent, _, name = location.root.rpartition("/")
    try:
        tables = _tables(store, f"{parent}/" if parent else "")
    except FatalError:  # the right to list may end at the table
        return "what lies beside it cannot be listed"
    near = difflib.get_close_matches(name, tables, n=_SHOWN)
    shown = [*near, *(table for table in tables if table not in near)][:_SHOWN]
    more = ", …" if len(tables) > _SHOWN else ""
    return f"beside it: {', '.join(shown)}{more}" if shown else "there is no table beside it either"


def _tables(store: ObjectStore, parent: str) -> list[str]:
    """The folders below ``parent`` that can be tables, as far as the first objects show them."""
    keys = (found.key.removeprefix(parent) for found in islice(store.list(parent), _LOOKED_AT))
    names = dict.fromkeys(key.partition("/")[0] for key in keys if "/" in key)
    return [name for name in names if not name.startswith("_")]
