"""The index files of virtual partitions, by which the catalog of Quix and its readers find their values."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def write_index(
    data_file: Path, virtual_columns: Sequence[str], partition_values: Mapping[str, str], path: Path
) -> bool:
    """Writes the index of virtual partitions that goes beside a data file: which of their values it holds.

    Virtual partition columns have no folders, so the catalog's partition tree is read from these files. They hold no
    data and are no reason to keep a batch from being written.

    It has the distinct values of the virtual columns, in the order of the partition tree, without those that the file
    has not, or that are lists or structs. Each row has the file's own partition values too, unescaped, as strings.
    Returns whether there was anything to write.
    """
    with pq.ParquetFile(data_file) as file:
        schema = file.schema_arrow
        known = [name for name in virtual_columns if name in schema.names]
        present = [name for name in known if not pa.types.is_nested(schema.field(name).type)]
        if not present:
            return False
        table = file.read(columns=present).select(present)
    index = table.group_by(present).aggregate([])
    for name, value in partition_values.items():
        if name not in present:
            index = index.append_column(name, pa.repeat(pa.scalar(value, pa.string()), index.num_rows))
    pq.write_table(index, path)
    return True
