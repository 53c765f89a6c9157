"""The last maintenance of a table, for all members that show it, and so that one of them begins each.

``<table>/_journal/last-compaction.json``. It saves work, and lets KEEP go on: all else relies on nothing here.
"""

import dataclasses
import json
import math
import secrets
from contextlib import suppress

from app.model import Maintenance
from app.storage.base import ChangedError, ObjectStore
from app.storage.document import Document, Form
from app.table.layout import journal_folder

_WORD = 8  # bytes; no two versions are alike


def last_maintenance(store: ObjectStore, table_root: str) -> Document[Maintenance]:
    """Returns the document, not read yet."""
    key = f"{journal_folder(table_root)}last-compaction.json"
    return Document(store, key, Form("the last maintenance", _parse, _body, "Delete the object"))


def keep_maintenance(store: ObjectStore, table_root: str, **done: float) -> None:
    """Stores the result of a command that has ended: fields of ``Maintenance``."""
    document = last_maintenance(store, table_root)
    before = document.read() or Maintenance()
    with suppress(ChangedError):  # another run has ended, or begun, at the same moment
        document.write(dataclasses.replace(before, **done))


def _body(maintenance: Maintenance) -> bytes:
    return json.dumps({**dataclasses.asdict(maintenance), "word": secrets.token_hex(_WORD)}).encode()


def _parse(body: bytes) -> Maintenance:
    try:
        fields = {**dataclasses.asdict(Maintenance()), **json.loads(body)}  # a former release has fewer
        values = {each.name: float(fields[each.name]) for each in dataclasses.fields(Maintenance)}
        if not all(map(math.isfinite, values.values())):
            raise ValueError("it has a number that is not finite")
        return Maintenance(**values)
    except (TypeError, OverflowError) as error:
        raise ValueError(str(error)) from None
