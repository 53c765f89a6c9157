"""Which rows of a batch make up which file: one per Hive partition and topic-partition."""

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from app.bad_rows import BadRowsError
from app.lineage import file_name
from app.model import BatchPart, FileGroup
from app.partitioning import PartitionSpec, group_ids, too_long


def file_groups(
    values: Sequence[pa.Array], parts: pa.Array, of: Sequence[BatchPart], spec: PartitionSpec
) -> tuple[pa.Array, tuple[FileGroup, ...]]:
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
        FileGroup(of[parts[first].as_py()], _values_of(first, values, spec), count)
        for first, count in zip(counted["row_min"].to_pylist(), counted["row_count"].to_pylist(), strict=True)
    ]
    return ids, tuple(groups)


def refuse_too_long(values: Sequence[pa.Array], of: Sequence[BatchPart], spec: PartitionSpec, table_root: str) -> None:
    """Refuse rows whose folders would be too long.

    Args:
        values: one array per partition column.
        of: the parts of the batch, which name the files.
        spec: names the columns.
        table_root: where the table lies.

    Raises:
        BadRowsError: there are some; all of them.
    """
    name = max((file_name(part) for part in of), key=len)
    if not values or _are_surely_short(values, name, spec, table_root):
        return
    ids = group_ids(values)
    firsts = pa.table({"id": ids, "row": pa.arange(0, len(ids))}).group_by("id").aggregate([("row", "min")])
    unusable: dict[int, str] = {}
    for number, first in zip(firsts["id"].to_pylist(), firsts["row_min"].to_pylist(), strict=True):
        reason = too_long(table_root, _values_of(first, values, spec), name)
        if reason:
            unusable[number] = reason
    if unusable:
        of_rows = pc.is_in(ids, pa.array(list(unusable), ids.type))
        raise BadRowsError({row: unusable[ids[row].as_py()] for row in pc.indices_nonzero(of_rows).to_pylist()})


def _are_surely_short(values: Sequence[pa.Array], name: str, spec: PartitionSpec, table_root: str) -> bool:
    """Whether even the longest values together, each byte escaped by three, would do."""
    longest = {
        column: "x" * (3 * (pc.max(pc.binary_length(array)).as_py() or 0))
        for column, array in zip(spec.columns, values, strict=True)
    }
    return too_long(table_root, longest, name) is None


def _values_of(row: int, values: Sequence[pa.Array], spec: PartitionSpec) -> Mapping[str, str]:
    return {name: array[row].as_py() for name, array in zip(spec.columns, values, strict=True)}
