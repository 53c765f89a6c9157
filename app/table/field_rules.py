"""The rules by which fields become columns: some are dropped, renamed or hashed, before anything else is done."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import pyarrow as pa

from app.lenient_json import to_json


@dataclass(frozen=True, slots=True)
class FieldRules:
    """Fields to drop, fields with the columns that they become, and columns of which only a salted hash is kept."""

    dropped: frozenset[str] = frozenset()
    renamed: Mapping[str, str] = field(default_factory=dict)
    hashed: frozenset[str] = frozenset()
    salt: str = field(default="", repr=False)

    def __bool__(self) -> bool:
        return bool(self.dropped or self.renamed or self.hashed)

    def columns_of(self, fields: Iterable[str]) -> dict[str, str]:
        """Returns the fields that are left, each with its column.

        Raises:
            ValueError: two of them would become one column.
        """
        columns = {name: self.renamed.get(name, name) for name in fields if name not in self.dropped}
        for name, column in columns.items():
            if name != column and columns.get(column) == column:
                raise ValueError(f'it has both "{name}" and "{column}", which RENAME_COLUMNS makes one column')
        return columns

    def field_of(self, column: str) -> str | None:
        """Returns the field that becomes this column, if any does."""
        for name, target in self.renamed.items():
            if target == column:
                return name
        return None if column in self.renamed or column in self.dropped else column

    def row(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the record's columns.

        Raises:
            ValueError: as ``columns_of``.
        """
        return {
            column: self._hashed(value[name]) if column in self.hashed else value[name]
            for name, column in self.columns_of(value).items()
        }

    def _hashed(self, value: Any) -> str | None:
        if value is None:
            return None
        return self._hash(value if isinstance(value, str) else to_json(value))

    def array(self, values: pa.Array) -> pa.Array | None:
        """Returns the hashes of a column, or ``None`` for types whose values must be hashed one by one."""
        if pa.types.is_null(values.type):
            return values
        if values.type not in (pa.string(), pa.int64()):
            return None
        texts = values.cast(pa.string()).dictionary_encode()
        hashes = pa.array(map(self._hash, texts.dictionary.to_pylist()), pa.string())
        return hashes.take(texts.indices)

    def _hash(self, text: str) -> str:
        return sha256((self.salt + text).encode("utf-8", "surrogatepass")).hexdigest()
