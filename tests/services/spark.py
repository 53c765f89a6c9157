"""The connector's own Spark for tests of what it writes."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from app.model import DataFile, StagedFile
from app.spark.java_process import forget_java
from app.spark.options import SparkOptions
from app.spark.staged_file import StagedWriter
from app.spark.writer import SparkWriter


def new_spark_writer(scratch: Path, job_seconds: float = 600.0, **changed: Any) -> SparkWriter:
    """A writer that is not started yet, with a small heap; keyword arguments replace its options."""
    options = SparkOptions("local[2]", heap_mb=512, off_heap_mb=253, compression="snappy", row_group_rows=100_000)
    return SparkWriter(replace(options, **changed), scratch, job_seconds)


@contextmanager
def started_spark(scratch: Path, **changed: Any) -> Iterator[SparkWriter]:
    """A writer that is started, as long as the block lasts; keyword arguments as above."""
    writer = new_spark_writer(scratch, **changed)
    with patch.dict(os.environ, {"LC_ALL": "C.UTF-8"}):  # Java reads names of local folders in the language it finds
        writer.start().result()
    yield writer
    writer.close()
    forget_java()


def staged_file(
    folder: Path, table: pa.Table, groups: Sequence[int] | None = None, without_dictionary: Sequence[str] = ()
) -> StagedFile:
    """The table as step 2 leaves it; by default all rows in one group."""
    ids = groups or [0] * table.num_rows
    table = table.append_column("__file_group", pa.array(ids, pa.int32()))
    writer = StagedWriter(folder / "staged.parquet", table.schema, without_dictionary)
    writer.append(table)
    rows = Counter(ids)
    files = tuple(DataFile(f"{i}.parquet", {}, rows[i]) for i in range(len(rows)))
    return writer.finish("__file_group", files)


def kept_variables() -> dict[str, str]:
    """What a command of the connector needs of this environment, with the fixture ``parsed_classes``."""
    return {name: os.environ[name] for name in ("PATH", "SPARK_SUBMIT_OPTS") if name in os.environ}
