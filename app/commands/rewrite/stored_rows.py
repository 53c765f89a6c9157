"""Converts a data file of a table to the table's schema, by the rules for new records.

The file is read and written in chunks of some megabytes, so memory does not grow with it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from app.commands.rewrite.schema_differences import differences
from app.convert.columns import coerce_array
from app.convert.values import Misfit, joined
from app.lenient_json import to_json
from app.table.layout import RESCUED_COLUMN
from app.table.schema import TableSchema

_MOST_ROWS = 65_536  # in memory at once
_MOST_BYTES = 32 << 20


class NotPossibleError(Exception):
    """A file cannot be converted to the table's schema."""


@dataclass(slots=True)
class CoercedRows:
    """The result for a file.

    ``columns`` are those to keep, in their order; ``rescued`` counts the values that went to ``_rescued_data``.
    """

    columns: tuple[str, ...]
    rescued: int = field(default=0)


def coerce_stored(source: Path, out: Path, table: TableSchema, fixed: frozenset[str]) -> CoercedRows:
    """Write the rows of a Parquet file to a new one, in their order, with the table's types where they differ.

    Values that their column's new type cannot hold go to ``_rescued_data``, as those of new records do. That column is
    always in the file written; it is among ``columns`` only if it is needed.

    Args:
        source: the file.
        out: the path of the new one: uncompressed, to be read once, by Spark.
        table: the schema that it is to have.
        fixed: columns whose type the user fixed.

    Raises:
        NotPossibleError: types, names or values that this connector cannot write.
    """
    try:
        with pq.ParquetFile(source) as file:
            kinds = _target(file.schema_arrow, table)
            converter = _Converter(kinds, {each.column for each in differences(file.schema_arrow, table)}, fixed)
            rows = _rows_at_once(file.metadata)
            with pq.ParquetWriter(
                out, pa.schema(list(kinds.items())), compression="none", use_dictionary=False, write_statistics=False
            ) as writer:
                for batch in file.iter_batches(rows):
                    writer.write_batch(converter.convert(batch))
            keeps_rescued = converter.rescued or RESCUED_COLUMN in file.schema_arrow.names
    except (pa.ArrowException, ValueError, OverflowError, RecursionError) as error:
        raise NotPossibleError(" ".join(str(error).split())) from error
    columns = tuple(name for name in kinds if keeps_rescued or name != RESCUED_COLUMN)
    return CoercedRows(columns, converter.rescued)


def same_rows(first: Path, second: Path, columns: Sequence[str]) -> bool:
    """Whether two Parquet files hold the same values in these columns, row by row."""
    with pq.ParquetFile(first) as one, pq.ParquetFile(second) as other:
        if one.metadata.num_rows != other.metadata.num_rows or other.schema_arrow.names != list(columns):
            return False
        pairs = _aligned(_chunks(one, columns), _chunks(other, columns))
        return all(_same(ours, theirs) for ours, theirs in pairs)


def _target(schema: pa.Schema, table: TableSchema) -> dict[str, pa.DataType]:
    """The columns of the new file. One without a type, which neither Spark nor the table has, holds nothing."""
    if len(set(schema.names)) != len(schema.names):
        raise ValueError("it has two columns of one name")
    own = TableSchema.from_arrow(schema).columns
    changed = {each.column for each in differences(schema, table)}
    kinds = {
        name: table.columns[name] if name in changed else own[name]
        for name in schema.names
        if name in changed or name in own
    }
    if kinds.setdefault(RESCUED_COLUMN, pa.string()) != pa.string():
        raise ValueError(f"its column {RESCUED_COLUMN!r} is not text")
    return kinds


def _rows_at_once(metadata: pq.FileMetaData) -> int:
    size: int = sum(metadata.row_group(index).total_byte_size for index in range(metadata.num_row_groups))
    rows: int = metadata.num_rows
    return max(1, min(_MOST_ROWS, _MOST_BYTES * rows // max(1, size)))


class _Converter:
    """Converts the rows of one file, chunk by chunk."""

    def __init__(self, kinds: Mapping[str, pa.DataType], changed: set[str], fixed: frozenset[str]) -> None:
        self._kinds = kinds
        self._changed = changed
        self._fixed = fixed
        self.rescued = 0

    def convert(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        stored = dict(zip(batch.schema.names, batch.columns, strict=True))
        misfits: dict[str, dict[int, Misfit]] = {}
        for name, kind in self._kinds.items():
            if name in self._changed:
                stored[name], misfits[name] = self._fitted(name, stored[name], kind)
        stored.setdefault(RESCUED_COLUMN, pa.nulls(batch.num_rows, pa.string()))
        columns = {name: _cast(stored[name], kind) for name, kind in self._kinds.items()}
        columns[RESCUED_COLUMN] = self._rescued(columns[RESCUED_COLUMN], misfits)
        return pa.RecordBatch.from_pydict(columns, schema=pa.schema(list(self._kinds.items())))

    def _fitted(self, name: str, array: pa.Array, kind: pa.DataType) -> tuple[pa.Array, dict[int, Misfit]]:
        column = coerce_array(array, _Values(array), kind, fixed=name in self._fixed)
        if column.array is None:
            return pa.nulls(len(array), kind), column.misfits
        if column.kind != kind:
            raise ValueError(f"its column {name!r} would need the type {column.kind}")
        return column.array, column.misfits

    def _rescued(self, before: pa.Array, misfits: Mapping[str, Mapping[int, Misfit]]) -> pa.Array:
        left_over: dict[int, dict[str, Any]] = {}
        for name, of_column in misfits.items():
            self.rescued += len(of_column)
            for row, misfit in of_column.items():
                left_over.setdefault(row, {})[name] = misfit.value
        if not left_over:
            return before
        texts = before.to_pylist()
        for row, fields in left_over.items():
            texts[row] = to_json(joined(_rescued_before(texts[row]), fields))
        return pa.array(texts, pa.string())


class _Values(Sequence[Any]):
    """The values of an array, converted on access."""

    def __init__(self, array: pa.Array) -> None:
        self._array = array

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, row: Any) -> Any:
        scalar = self._array[row]
        # Python has no nanoseconds; the rules for new records know them from the scalar itself.
        return scalar if pa.types.is_timestamp(scalar.type) and scalar.is_valid else scalar.as_py()


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    return array if array.type == kind else array.cast(kind)


def _rescued_before(text: str | None) -> dict[str, Any]:
    fields = {} if text is None else json.loads(text)
    if not isinstance(fields, dict):
        raise ValueError(f"its column {RESCUED_COLUMN!r} holds {text!r:.80}, which is no JSON object")  # noqa: TRY004
    return fields


def _chunks(file: pq.ParquetFile, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    # All columns are read: by its name pyarrow would take a column ``a.b`` for a field of ``a``.
    return (batch.select(list(columns)) for batch in file.iter_batches(_rows_at_once(file.metadata)))


def _aligned(
    first: Iterator[pa.RecordBatch], second: Iterator[pa.RecordBatch]
) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """Chunks of equal length of two files with equal numbers of rows and other row groups."""
    other = None
    for one in first:
        rest = one
        while rest.num_rows:
            if other is None or not other.num_rows:
                other = next(second)
            rows = min(rest.num_rows, other.num_rows)
            yield rest.slice(0, rows), other.slice(0, rows)
            rest, other = rest.slice(rows), other.slice(rows)


def _same(one: pa.RecordBatch, other: pa.RecordBatch) -> bool:
    for ours, theirs in zip(one.columns, other.columns, strict=True):
        if ours.type != theirs.type:
            return False
        # As text where it matters, for NaN is not equal to itself.
        if not ours.equals(theirs) and repr(ours.to_pylist()) != repr(theirs.to_pylist()):
            return False
    return True
