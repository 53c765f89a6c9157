"""Checks the names of records' fields, and infers the types of fields with Arrow."""

from collections.abc import Iterator, Sequence, Set
from typing import Any

import pyarrow as pa

from app.bad_records.refusals import BadRowsError
from app.convert.columns import infer
from app.convert.scalars import is_unicode
from app.reason_texts import Reason, about


class FieldValues(Sequence[Any]):
    """The values of one field in all records. The values are not copied."""

    def __init__(self, records: Sequence[dict[str, Any]], name: str) -> None:
        self._records = records
        self._name = name

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, row: Any) -> Any:
        return self._records[row].get(self._name)

    def __iter__(self) -> Iterator[Any]:
        name = self._name
        return (record.get(name) for record in self._records)


def field_names(values: list[dict[str, Any]]) -> Set[str]:
    """Returns the names of all fields; raises ``BadRowsError`` if a record cannot be a row."""
    if all(issubclass(kind, dict) for kind in set(map(type, values))):
        names: set[Any] = set().union(*values)
        if all(isinstance(name, str) and is_unicode(name) for name in names):
            return names
    raise BadRowsError({row: reason for row, value in enumerate(values) if (reason := _refusal(value))})


def infer_fields(values: list[dict[str, Any]]) -> dict[str, pa.Array | None]:
    """Returns each field of the records as an array of an inferred type, in the order in which fields first occur."""
    records = infer(values, are_records=True)
    if records is not None and pa.types.is_struct(records.type):
        return dict(zip((field.name for field in records.type), records.flatten(), strict=True))
    names = dict.fromkeys(name for value in values for name in value)
    return {name: infer(FieldValues(values, name)) for name in names}


def _refusal(value: Any) -> Reason | None:
    if not isinstance(value, dict):
        return about(value, "", "it is not an object with fields, but ")
    for name in value:
        if not isinstance(name, str):
            return about(name, " is not text", "its field name ")
        if not is_unicode(name):
            return about(name, " is not Unicode", "its field name ")
    return None
