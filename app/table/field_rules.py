"""The rules of fields. The connector drops, renames and hashes fields before they become columns."""

from collections.abc import Iterable, Mapping
from datetime import time
from hashlib import sha256
from typing import Any

import pyarrow as pa

from app.json_texts import to_json


class FieldRules:
    """Fields to drop, renamed fields with their columns, and columns that contain only a salted hash.

    Names of dropped and hashed fields ignore case. Otherwise ``User`` would remain in the rescued data.
    """

    def __init__(
        self,
        dropped: Iterable[str] = (),
        renamed: Mapping[str, str] | None = None,
        hashed: Iterable[str] = (),
        salt: str = "",
    ) -> None:
        self._dropped = {name.casefold(): name for name in dropped}
        self._renamed = dict(renamed or {})
        self._hashed = {name.casefold(): name for name in hashed}
        self._fields = {column: name for name, column in self._renamed.items()}
        self._salt = salt
        self._unmet = {*self._dropped, *self._renamed, *self._hashed}

    def __bool__(self) -> bool:
        return bool(self._dropped or self._renamed or self._hashed)

    def is_dropped(self, field: str) -> bool:
        return field.casefold() in self._dropped

    def is_hashed(self, column: str) -> bool:
        return column.casefold() in self._hashed

    def column_of(self, field: str) -> str:
        return self._renamed.get(field, field)

    def is_renamed(self, field: str) -> bool:
        """Whether the field is renamed, or a different field is renamed to this name."""
        return field in self._renamed or field in self._fields

    def fields_of(self, column: str) -> list[str]:
        """Returns the fields that may become this column."""
        own = [] if column in self._renamed or self.is_dropped(column) else [column]
        return [self._fields[column], *own] if column in self._fields else own

    def columns_of(self, fields: Iterable[str]) -> dict[str, str]:
        """Returns the fields that are not dropped, with their columns.

        Raises:
            ValueError: Two fields would become one column.
        """
        columns = {name: self.column_of(name) for name in fields if not self.is_dropped(name)}
        for name, column in columns.items():
            if name != column and columns.get(column) == column:
                raise ValueError(f'it has both "{name}" and "{column}", which RENAME_COLUMNS makes one column')
        return columns

    def row(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the columns of a record. Raises the error of ``columns_of``."""
        columns = self.columns_of(value)
        self.meet(value)
        return {
            column: self._hash_of(value[name]) if self.is_hashed(column) else value[name]
            for name, column in columns.items()
        }

    def _hash_of(self, value: Any) -> str | None:
        if value is None or value == {}:
            return None
        if isinstance(value, time):  # tables contain a time of day as text
            value = value.isoformat()
        return self._hash(value if isinstance(value, str) else to_json(value))

    def hashes(self, values: pa.Array) -> pa.Array | None:
        """Returns the hashes of a column; ``None`` if values of this type must be hashed one by one."""
        if pa.types.is_nested(values.type):  # an object that contains only nulls may be null
            return None
        if values.null_count == len(values):
            return pa.nulls(len(values))
        if values.type not in (pa.string(), pa.int64(), pa.bool_()):
            return None
        texts = values.cast(pa.string()).dictionary_encode()
        hashes = pa.array(map(self._hash, texts.dictionary.to_pylist()), pa.string())
        return hashes.take(texts.indices)

    def _hash(self, text: str) -> str:
        return sha256((self._salt + text).encode("utf-8", "surrogatepass")).hexdigest()

    def meet(self, fields: Iterable[str]) -> None:
        """Notes that the rules for these fields have been used."""
        if self._unmet:
            for name in fields:
                self._unmet -= {name, name.casefold(), self.column_of(name).casefold()}

    def unmet(self) -> Mapping[str, str]:
        """Returns the names in the rules that no field has had so far, and the setting of each name."""
        renamed = {name: name for name in self._renamed}
        rules = {"DROP_COLUMNS": self._dropped, "HASH_COLUMNS": self._hashed, "RENAME_COLUMNS": renamed}
        return {names[key]: setting for setting, names in rules.items() for key in names if key in self._unmet}
