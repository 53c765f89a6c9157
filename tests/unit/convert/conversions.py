"""Records converted, and what a test wants to know of them."""

import json
from typing import Any

import pyarrow as pa

from app.convert.rows import Conversion, Rules, convert
from app.table.schema import EMPTY, TableSchema
from app.table.type_names import parse_column_types, type_name
from tests.support.batches import row

RULES = Rules("ts_ms", frozenset())
INT = {"x": pa.int64()}


def converted(*values: dict[str, Any], schema: dict[str, pa.DataType] | None = None) -> Conversion:
    return convert([row(value) for value in values], TableSchema(schema or {}), RULES)


def stored(*values: object, schema: dict[str, pa.DataType] | None = None) -> tuple[str | None, list[Any]]:
    """The type of the column ``x`` and what it holds of these values; ``None`` where there is no such column."""
    conversion = converted(*({"x": value} for value in values), schema=schema)
    kind = conversion.schema.columns.get("x")
    has_column = "x" in conversion.table.column_names
    column = conversion.table["x"].to_pylist() if has_column else [None] * len(values)
    return (None if kind is None else type_name(kind)), column


def rescued(conversion: Conversion) -> list[Any]:
    """Per row what was rescued."""
    table = conversion.table
    if "_rescued_data" not in table.column_names:
        return [None] * table.num_rows
    return [None if text is None else json.loads(text) for text in table["_rescued_data"].to_pylist()]


def rescued_of(*values: object, schema: dict[str, pa.DataType] | None = None) -> list[Any]:
    return rescued(converted(*({"x": value} for value in values), schema=schema))


def fixed(column_types: str, *values: dict[str, Any]) -> Conversion:
    """Records of a new table, as the first ones after ``COLUMN_TYPES`` was set."""
    types = parse_column_types(column_types)
    rules = Rules("ts_ms", frozenset(), types)
    return convert([row(value) for value in values], EMPTY, rules)
