"""Checks the names of records' fields, and infers the types of fields with Arrow."""

from collections.abc import Sequence, Set
from typing import Any

import pyarrow as pa

from app.bad_records.refusals import BadRowsError
from app.convert.columns import infer
from app.convert.scalars import is_unicode
from app.reason_texts import Reason, about


def field_values(records: Sequence[dict[str, Any]], name: str) -> list[Any]:
    """Returns the values of one field in all records."""
    return [record.get(name) for record in records]


def field_names(values: list[dict[str, Any]]) -> Set[str]:
    """Returns the names of all fields; raises ``BadRowsError`` if a record cannot be a row."""
    if all(issubclass(kind, dict) for kind in set(map(type, values))):
        names: set[Any] = set().union(*values)
        if all(isinstance(name, str) and is_unicode(name) for name in names):
            return names
    raise BadRowsError({row: reason for row, value in enumerate(values) if (reason := _refusal(value))})


def infer_fields(values: list[dict[str, Any]], maps: Set[str]) -> dict[str, pa.Array | None]:
    """Returns each field of the records as an array of an inferred type, in their order. ``maps`` have no array."""
    names = dict.fromkeys(name for value in values for name in value)
    records = infer(values, are_records=True) if maps.isdisjoint(names) else None
    if records is not None and pa.types.is_struct(records.type):
        return dict(zip((field.name for field in records.type), records.flatten(), strict=True))
    return {name: None if name in maps else infer(field_values(values, name)) for name in names}


def _refusal(value: Any) -> Reason | None:
    if not isinstance(value, dict):
        return about(value, "", "it is not an object with fields, but ")
    for name in value:
        if not isinstance(name, str):
            return about(name, " is not text", "its field name ")
        if not is_unicode(name):
            return about(name, " is not Unicode", "its field name ")
    return None
