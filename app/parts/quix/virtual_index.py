"""The index files of virtual partitions, in which the catalog of Quix and its readers find their values."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def write_index(
    data_file: Path, virtual_columns: Sequence[str], partition_values: Mapping[str, str], path: Path
) -> bool:
    """Write the index file of a data file: its values of virtual partitions. Return whether there were any.

    Virtual partition columns have no folders, so the catalog reads its partition tree from these files. They contain
    no data, so a failure does not stop a batch.

    The index contains the distinct values of the virtual columns, in the order of the partition tree, without missing
    columns, lists and structs. Each row also contains the file's partition values, unescaped, as strings.
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
