"""Which rows of a batch make up which file: one per Hive partition and topic-partition."""

from collections.abc import Sequence

import pyarrow as pa

from app.convert.partition_values import group_ids, values_of
from app.model import BatchPart, OutputFile
from app.table.layout import PartitionSpec


def output_files(
    values: Sequence[pa.Array], parts: pa.Array, of: Sequence[BatchPart], spec: PartitionSpec
) -> tuple[pa.Array, tuple[OutputFile, ...]]:
    """The group of every row (int32), and the groups by their numbers.

    Args:
        values: one array per partition column.
        parts: the part of every row.
        of: the parts.
        spec: names the columns.
    """
    ids = group_ids([*values, parts])
    counted = pa.table({"id": ids, "row": pa.arange(0, len(ids))})
    counted = counted.group_by("id").aggregate([("row", "min"), ("row", "count")]).sort_by("id")
    groups = [
        OutputFile(of[parts[first].as_py()], values_of(first, values, spec), count)
        for first, count in zip(counted["row_min"].to_pylist(), counted["row_count"].to_pylist(), strict=True)
    ]
    return ids, tuple(groups)
