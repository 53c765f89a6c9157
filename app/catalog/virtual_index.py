"""The index of virtual partitions: beside each data file a small one that lists which of their values it holds.

Virtual partition columns have no folders, so nobody could tell from the keys what is where. The catalog's partition
tree is read from these files instead. They hold no data and are no reason to keep a batch from being written.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def write_index(
    data_file: Path, virtual_columns: Sequence[str], partition_values: Mapping[str, str], path: Path
) -> bool:
    """Writes the distinct values of the virtual columns, and the file's own partition values, the same in all rows.

    The virtual columns are in the order of the partition tree. Those that the file has not, or that are lists or
    structs, are left out. The partition values are unescaped, and written as strings. Returns whether there was
    anything to write.
    """
    with pq.ParquetFile(data_file) as file:
        schema = file.schema_arrow
        present = [name for name in virtual_columns if name in schema.names and _can_be_grouped(schema.field(name))]
        if not present:
            return False
        table = file.read(columns=present).select(present)
    index = table.group_by(present).aggregate([])
    for name, value in partition_values.items():
        if name not in present:
            index = index.append_column(name, pa.repeat(pa.scalar(value, pa.string()), index.num_rows))
    pq.write_table(index, path)
    return True


def _can_be_grouped(field: pa.Field) -> bool:
    return not pa.types.is_nested(field.type)
