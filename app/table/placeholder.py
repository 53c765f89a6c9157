"""Placeholders: Parquet files without rows, which take the names of objects that were rolled back.

Readers of the table's folder may open them, so they have the table's columns.
"""

from collections.abc import Callable, Collection, Iterable
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from app.storage.base import ObjectStore
from app.table.layout import RESCUED_COLUMN, dead_letter_root
from app.table.schema import EMPTY
from app.table.schema_store import schema_document


class Placeholders:
    """Puts placeholders into the store; safe from several threads.

    ``dead_letter`` is the schema of the dead letter's files. ``each`` applies a function to every item, like ``map``
    and possibly side by side.
    """

    def __init__(
        self,
        store: ObjectStore,
        table_root: str,
        dead_letter: pa.Schema,
        each: Callable[[Callable[[str], Any], Iterable[str]], Iterable[Any]] = map,
    ) -> None:
        self._store = store
        self._table_root = table_root
        self._dead_letter = dead_letter
        self._each = each

    def put(self, keys: Collection[str]) -> None:
        """Puts a placeholder under each of these keys, in place of any object there."""
        if not keys:
            return
        dead_letters = f"{dead_letter_root(self._table_root)}/"
        of_dead_letter, of_table = _without_rows(self._dead_letter), _without_rows(self._columns())

        def put(key: str) -> None:
            self._store.overwrite(key, of_dead_letter if key.startswith(dead_letters) else of_table)

        for _ in self._each(put, keys):
            pass

    def _columns(self) -> pa.Schema:
        """Returns the table's columns; without any, engines refuse a file."""
        schema = schema_document(self._store, self._table_root).read() or EMPTY
        return pa.schema(list((schema.columns or {RESCUED_COLUMN: pa.string()}).items()))


def _without_rows(schema: pa.Schema) -> bytes:
    body = BytesIO()
    pq.write_table(schema.empty_table(), body)
    return body.getvalue()
