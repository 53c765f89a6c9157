"""Writes the Parquet file that passes a batch to Spark, and measures its rows.

The file is read only once, on this machine. Therefore the file has no compression, dictionaries or statistics. Writing
200,000 rows needs 30 ms.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from app.model import DataFile, OffsetRange, StagedFile

_LARGE_VALUE_BYTES = 64 * 1024  # a footer does not contain bounds of more than 4 KB
_MAX_ROW_GROUP_BYTES = 16 * 2**20  # Spark keeps one row group in the heap, and its strings twice while they grow
_WORD_BYTES = 8
_SORTED_ROW_BYTES = 48  # bytes of a row in addition to values: its head, and its place in the sorted list


class StagedWriter:
    """Writes a staged file, table by table. Spark loads one row group at a time."""

    def __init__(self, path: Path, schema: pa.Schema, without_dictionary: Sequence[str] = ()) -> None:
        self.schema = schema.remove_metadata()
        self.without_dictionary = without_dictionary
        self.rows = 0
        self.nbytes = 0  # of all rows, in Arrow's memory
        self.sort_bytes = 0  # of all rows, estimated, in the memory of Spark's sort
        self.path = path
        self._writer = pq.ParquetWriter(
            path, self.schema, compression="none", use_dictionary=False, write_statistics=False
        )
        self._largest = 0
        self._large: set[tuple[str, ...]] = set()

    def append(self, table: pa.Table) -> None:
        """Appends rows in one row group. Large rows need several row groups."""
        largest = sum(map(_largest_value, table.columns))
        if largest > _LARGE_VALUE_BYTES:  # no value is larger than the largest row
            for name in table.column_names:
                self._large.update(_with_large_values((name,), table.column(name)))
        self._largest = max(self._largest, largest)
        self.rows += len(table)
        self.nbytes += table.nbytes
        self.sort_bytes += len(table) * _SORTED_ROW_BYTES + sum(map(_sort_bytes, table.columns))
        table = table.replace_schema_metadata()
        for group in _row_groups(table):
            self._writer.write_table(group, row_group_size=group.num_rows)

    def close(self) -> None:
        self._writer.close()

    def finish(
        self,
        group_column: str,
        groups: tuple[DataFile, ...],
        sort_column: str | None = None,
        offsets: tuple[OffsetRange, ...] = (),
    ) -> StagedFile:
        """Closes the file. Returns the file with the measurements of its rows."""
        self.close()
        return StagedFile(
            self.path,
            group_column,
            groups,
            sort_column,
            offsets,
            self._largest,
            sorted(self._large),
            self.without_dictionary,
        )


def _largest_value(column: pa.ChunkedArray) -> int:
    """Returns an upper bound of a value's bytes. It assumes that the longest list has the largest elements."""
    kind = column.type
    if _has_bytes(kind):
        return _max(pc.binary_length(column))
    if pa.types.is_list(kind):
        return _max(pc.list_value_length(column)) * _largest_value(pc.list_flatten(column))
    if pa.types.is_map(kind):
        return _largest_value(column.cast(pa.list_(kind.field(0))))
    if pa.types.is_struct(kind):
        return sum(_largest_value(pc.struct_field(column, index)) for index in range(kind.num_fields))
    if pa.types.is_primitive(kind) or pa.types.is_decimal(kind):
        return -(-int(kind.bit_width) // 8)
    return int(column.nbytes)


def _sort_bytes(column: pa.ChunkedArray | pa.Array) -> int:
    """Estimates the size of values in Spark's sort: 8 bytes each, plus the bytes of types without a fixed width."""
    kind = column.type
    if pa.types.is_list(kind):
        return 3 * _WORD_BYTES * len(column) + _sort_bytes(pc.list_flatten(column))
    if pa.types.is_map(kind):
        return _sort_bytes(column.cast(pa.list_(kind.field(0))))
    if pa.types.is_struct(kind):
        fields = (_sort_bytes(pc.struct_field(column, index)) for index in range(kind.num_fields))
        return 2 * _WORD_BYTES * len(column) + sum(fields)
    if pa.types.is_primitive(kind):
        return _WORD_BYTES * len(column)
    return 2 * _WORD_BYTES * len(column) + int(column.nbytes)


def _with_large_values(path: tuple[str, ...], column: pa.ChunkedArray) -> Iterator[tuple[str, ...]]:
    """Yields the paths of the leaf columns of text and bytes with a large value."""
    kind = column.type
    if column.nbytes <= _LARGE_VALUE_BYTES:
        return
    if _has_bytes(kind):
        if _max(pc.binary_length(column)) > _LARGE_VALUE_BYTES:
            yield path
    elif pa.types.is_list(kind):
        yield from _with_large_values((*path, "list", "element"), pc.list_flatten(column))
    elif pa.types.is_map(kind):
        yield from _with_large_values((*path, "key_value"), pc.list_flatten(column.cast(pa.list_(kind.field(0)))))
    elif pa.types.is_struct(kind):
        for index in range(kind.num_fields):
            yield from _with_large_values((*path, kind.field(index).name), pc.struct_field(column, index))


def _has_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_string(kind))


def _max(lengths: pa.ChunkedArray) -> int:
    return int(pc.max(lengths).as_py() or 0)  # null if there is no value


def _row_groups(table: pa.Table) -> Iterator[pa.Table]:
    if table.num_rows <= 1 or table.nbytes <= _MAX_ROW_GROUP_BYTES:
        yield table
    else:
        half = table.num_rows // 2
        yield from _row_groups(table.slice(0, half))
        yield from _row_groups(table.slice(half))
