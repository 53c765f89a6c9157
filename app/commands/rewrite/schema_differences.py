"""Finds columns whose types in a stored file differ from the table's, where readers of the whole table fail."""

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from app.table.schema import TableSchema
from app.table.type_names import type_name


class Difference(NamedTuple):
    """A column, or a field inside one, whose type in the file is not the table's; types by their Spark names."""

    column: str
    path: str
    found: str
    wanted: str

    def __str__(self) -> str:
        return f"{self.path} {self.found} → {self.wanted}"


def differences(file: pa.Schema, table: TableSchema) -> list[Difference]:
    """List the columns and fields that keep the file from being read with the table's schema.

    Columns and fields that only one of the two has are none: readers fill them with nulls, and join them by name.
    Neither are forms that Parquet does not know (dictionaries, large strings), nor milliseconds, nor zone names.
    """
    return [
        Difference(field.name, path, _name(found), _name(wanted))
        for field in file
        if field.name in table.columns
        for path, found, wanted in _differing(field.name, field.type, table.columns[field.name])
    ]


def _differing(path: str, found: pa.DataType, wanted: pa.DataType) -> Iterator[tuple[str, pa.DataType, pa.DataType]]:
    found = found.value_type if pa.types.is_dictionary(found) else found
    if pa.types.is_struct(found) and pa.types.is_struct(wanted):
        known = {field.name: field.type for field in wanted}
        for field in found:
            if field.name in known:
                yield from _differing(f"{path}.{field.name}", field.type, known[field.name])
    elif _is_list(found) and pa.types.is_list(wanted):
        yield from _differing(f"{path}[]", found.value_type, wanted.value_type)
    elif _as_parquet_has_it(found) != wanted:
        yield path, found, wanted


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _as_parquet_has_it(kind: pa.DataType) -> pa.DataType:
    """Return one type for all types that readers treat alike."""
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_date(kind):
        return pa.date32()
    if pa.types.is_timestamp(kind) and kind.unit != "ns":  # Spark refuses nanoseconds
        return pa.timestamp("us", "UTC" if kind.tz else None)
    return kind


def _name(kind: pa.DataType) -> str:
    try:
        return type_name(kind)
    except ValueError:
        return str(kind)
