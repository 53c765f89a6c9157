"""Counts the offsets of a topic-partition that are in the dead letter."""

import pyarrow as pa
import pyarrow.compute as pc

from app.commands.audit.batches import FILES, as_table, rows_of
from app.commands.audit.offset_reader import PARTITION_COLUMN, TOPIC_COLUMN, read_ranges
from app.commands.audit.ranges import count_until, joined
from app.commands.batches_in_files import named_part
from app.commands.side_by_side import side_by_side
from app.storage.base import ObjectStore
from app.table.layout import dead_letter_root


def list_dead_letter(store: ObjectStore, root: str) -> pa.Table:
    """List the files with rejected records."""
    named = ((named_part(listed.key), listed) for listed in store.list(f"{dead_letter_root(root)}/"))
    return as_table(((*part, listed.key, listed.size) for part, listed in named if part), FILES)


def count_rejected(store: ObjectStore, workers: int, files: pa.Table, gaps: pa.RecordBatch) -> pa.Array:
    """Count the rejected records in each gap; of the topic-partition's files, only those that may have any are read."""
    ended_before = pc.search_sorted(gaps["last"], files["first"])
    begun_until = pc.search_sorted(gaps["first"], files["last"], side="right")
    near = files.filter(pc.less(ended_before, begun_until)).select(["key", "size"])

    def read(file: tuple[str, int]) -> pa.RecordBatch:
        return joined([*(read_ranges(store, *file, "offset", {TOPIC_COLUMN: "", PARTITION_COLUMN: 0}) or {}).values()])

    rejected = joined([ranges for _, ranges in side_by_side(workers, read, rows_of(near))])
    until_end = count_until(rejected, gaps["last"])
    return pc.subtract(until_end, count_until(rejected, pc.subtract(gaps["first"], 1)))
