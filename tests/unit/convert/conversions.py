"""Records converted, and what a test wants to know of them."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.convert.rows import Conversion, Rules, convert
from app.table.schema import EMPTY, TableSchema
from app.table.type_names import parse_column_types, type_name
from tests.support.batches import row
from tests.support.both_ways import StagingStep, Table, messages

RULES = Rules("ts_ms", frozenset())
INT = {"x": pa.int64()}

both_ways = pytest.mark.parametrize("at_once", [True, False], ids=["at once", "one by one"])


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


def staged(
    path: Path,
    table: Table,
    *texts: str,
    at_once: bool,
    schema: dict[str, pa.DataType] | None = None,
    times: int = 1,
    **fields: Any,
) -> tuple[list[dict[str, Any]], list[dict[str, str]], TableSchema]:
    """The rows of these messages, each with what was rescued of it; the values of each folder; the table's schema."""
    step = StagingStep(table, at_once=at_once)
    step.schema.current = TableSchema(schema or {})
    for _ in range(times):
        result = step.stage(messages(*(text.encode() for text in texts), **fields), path / "staged.parquet")
        assert not result.rejected
    assert result.file
    rows = pq.read_table(result.file.path).to_pylist()
    for each in rows:
        each["rescued"] = json.loads(each.pop("_rescued_data", None) or "{}")
    return rows, [dict(group.partition_values) for group in result.file.groups], step.schema.current


def logical(kind: str, name: str, /, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}
