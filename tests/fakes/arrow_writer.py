"""Stands in for Spark: the same files from the same staged batch, without Java."""

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from app.model import DataFile, OffsetRange, StagedFile
from app.spark.batch_offsets import as_column_metadata


class ArrowWriter:
    """Writes one file per group, in folders as Spark makes them; ``before`` is called with the batch's number."""

    def __init__(self, before: Callable[[int], None] = lambda _: None) -> None:
        self.before = before
        self.batches = 0
        self.up: Future[None] = Future()
        self.up.set_result(None)

    def write(self, staged: StagedFile, out: Path) -> list[DataFile]:
        number, self.batches = self.batches, self.batches + 1
        self.before(number)
        table = pq.read_table(staged.path)
        files = []
        for index, file in enumerate(staged.groups):
            path = out / f"{staged.group_column}={index}" / "part-0.parquet"
            path.parent.mkdir(parents=True)
            rows = table.filter(pc.equal(table.column(staged.group_column), index))
            pq.write_table(with_offsets(rows.drop_columns([staged.group_column]), staged.offsets), path)
            files.append(replace(file, path=path, size=path.stat().st_size))
        return files


def with_offsets(table: pa.Table, offsets: Sequence[OffsetRange]) -> pa.Table:
    """The table with the offsets in its metadata, where Spark keeps what is noted at a column."""
    if not offsets:
        return table
    return table.replace_schema_metadata(footer_with(table.column_names[0], as_column_metadata(offsets)))


def footer_with(column: str, metadata: Mapping[str, Any]) -> dict[str, str]:
    """The metadata of a file in whose footer Spark has kept a column's metadata."""
    row = {"type": "struct", "fields": [{"name": column, "metadata": dict(metadata)}]}
    return {"org.apache.spark.sql.parquet.row.metadata": json.dumps(row)}
