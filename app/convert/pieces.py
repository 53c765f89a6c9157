"""Pieces of a batch that were converted one after another → one table, in the types that the last of them has left."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from app.convert.columns import CONVERSION_ERRORS, accepts, recast


@dataclass(frozen=True, slots=True)
class Rows:
    """Converted rows: their columns, one array per partition column, and the part that each row belongs to (int32).

    Rows without any value have a table without columns.
    """

    table: pa.Table
    partition_values: Sequence[pa.Array]
    parts: pa.Array


def in_one(pieces: Sequence[Rows], kinds: Mapping[str, pa.DataType]) -> Rows | None:
    """All rows, with the columns in the order of ``kinds``; ``None`` where values do not fit the types of ``kinds``.

    Args:
        pieces: at least one; their types are those of ``kinds``, or such as these have grown from.
        kinds: all columns and their types.
    """
    tables = []
    for piece in pieces:
        table = _in_types(piece.table, kinds)
        if table is None:
            return None
        tables.append(table)
    if len(pieces) == 1:
        return Rows(tables[0], pieces[0].partition_values, pieces[0].parts)
    table = pa.concat_tables(tables, promote_options="default")
    table = table.select([name for name in kinds if name in table.column_names])
    values = [pa.concat_arrays(arrays) for arrays in zip(*(piece.partition_values for piece in pieces), strict=True)]
    return Rows(table, values, pa.concat_arrays([piece.parts for piece in pieces]))


def _in_types(table: pa.Table, kinds: Mapping[str, pa.DataType]) -> pa.Table | None:
    for index, column in enumerate(table.schema):
        kind = kinds.get(column.name)
        if kind == column.type:
            continue
        if kind is None or not accepts(kind, column.type):
            return None
        try:
            chunks = [recast(chunk, kind) for chunk in table.column(index).chunks]
        except CONVERSION_ERRORS:  # whole numbers with more digits than a double has
            return None
        table = table.set_column(index, pa.field(column.name, kind), pa.chunked_array(chunks, kind))
    return table
