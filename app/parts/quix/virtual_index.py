"""Writes the index files of virtual partitions. The catalog of Quix and readers use these files."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def write_index(
    data_file: Path, virtual_columns: Sequence[str], partition_values: Mapping[str, str], path: Path
) -> bool:
    """Write the index file of a data file. Return false if the data file contains no virtual partition values.

    Virtual partition columns have no folders, so the catalog reads the partition tree from index files. Index files
    contain no records, so a failure does not stop a batch.

    The index file contains the distinct values of the virtual columns, in the order of the partition tree. Missing
    columns, lists and structs are omitted. Each row also contains the file's partition values, as unescaped strings.
    """
    with pq.ParquetFile(data_file) as file:
        schema = file.schema_arrow
        names = [name for name in virtual_columns if name in schema.names]
        present = [name for name in names if not pa.types.is_nested(schema.field(name).type)]
        if not present:
            return False
        table = file.read(columns=present).select(present)
    index = table.group_by(present).aggregate([])
    for name, value in partition_values.items():
        if name not in present:
            index = index.append_column(name, pa.repeat(pa.scalar(value, pa.string()), index.num_rows))
    pq.write_table(index, path)
    return True
