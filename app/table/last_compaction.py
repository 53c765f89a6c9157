"""The last compaction of a table, for all members that show it, and so that one of them begins each.

``<table>/_journal/last-compaction.json``. It saves work: compaction itself relies on nothing here.
"""

import dataclasses
import json
import math
import secrets
from contextlib import suppress

from app.model import Compaction
from app.storage.base import ChangedError, ObjectStore
from app.storage.document import Document, Form
from app.table.layout import journal_folder

_WORD = 8  # bytes; no two versions are alike


def last_compaction(store: ObjectStore, table_root: str) -> Document[Compaction]:
    """Returns the document, not read yet."""
    key = f"{journal_folder(table_root)}last-compaction.json"
    return Document(store, key, Form("the last compaction", _parse, _body, "Delete the object"))


def keep_compaction(store: ObjectStore, table_root: str, done: Compaction) -> None:
    """Stores the result of a compaction that has ended."""
    document = last_compaction(store, table_root)
    document.read()
    with suppress(ChangedError):  # another run has ended, or begun, at the same moment
        document.write(done)


def _body(compaction: Compaction) -> bytes:
    return json.dumps({**dataclasses.asdict(compaction), "word": secrets.token_hex(_WORD)}).encode()


def _parse(body: bytes) -> Compaction:
    try:
        fields = json.loads(body)
        values = {each.name: float(fields[each.name]) for each in dataclasses.fields(Compaction)}
        if not all(map(math.isfinite, values.values())):
            raise ValueError("it has a number that is not finite")
        return Compaction(**values)
    except (KeyError, TypeError, OverflowError) as error:
        raise ValueError(str(error)) from None
